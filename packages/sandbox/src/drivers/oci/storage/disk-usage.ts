import { PlatformError } from "@sandpiper/core/errors";
import { runCommand } from "../container/runtime.ts";

const timeoutMs = 60_000;

/** Measures folders; concurrent calls for one folder share a measurement. */
export class DiskUsage {
  readonly #running = new Map<string, Promise<number>>();

  /**
   * Bytes that a folder takes on its filesystem; hard links count once, links are not followed. A
   * separate process measures, so that many files do not block the server. Throws SandboxFailed.
   */
  measure(folder: string): Promise<number> {
    const running = this.#running.get(folder);
    if (running) return running;
    const work = measureFolder(folder).finally(() => this.#running.delete(folder));
    this.#running.set(folder, work);
    return work;
  }
}

async function measureFolder(folder: string): Promise<number> {
  const result = await runCommand(["du", "-sx", "--block-size=1", "--", folder], { timeoutMs });
  // du reports files that disappear meanwhile and still prints the sum.
  const size = /^(\d+)\t/.exec(result.output)?.[1];
  if (size === undefined)
    throw new PlatformError("DiskUsageFailed", {
      reason: result.reason || `du ended with code ${result.code}`,
    });
  return Number(size);
}
