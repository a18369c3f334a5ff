import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";

/** Does work whose failure is only logged, as `text`. Never rejects. */
export async function logFailure(
  logger: Pick<Logger, "warn">,
  text: string,
  work: () => Promise<void>,
  sandbox?: string,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    logger.warn({ sandbox, reason: errorText(error) }, text);
  }
}
