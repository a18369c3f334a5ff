import { isUnreachable } from "./failure.ts";
import type { Look } from "./model.ts";
import type { ModelAddress } from "./resolve.ts";

/** Time for a list of models, ms. A slower endpoint is left to the call itself. */
const lookMs = 5_000;

/** Asks an endpoint for its models, which costs nothing, to see whether it takes the key. */
export async function lookAt(
  { wire, baseUrl, apiKey }: ModelAddress,
  fetch: typeof globalThis.fetch,
  signal: AbortSignal,
): Promise<Look> {
  if (wire === "bedrock") return "fine";
  const headers: Record<string, string> = {};
  if (apiKey && wire === "anthropic")
    Object.assign(headers, { "x-api-key": apiKey, "anthropic-version": "2023-06-01" });
  else if (apiKey && wire === "google") headers["x-goog-api-key"] = apiKey;
  else if (apiKey) headers.authorization = `Bearer ${apiKey}`;
  try {
    const response = await fetch(`${baseUrl}/models`, {
      ...{ headers, redirect: "manual" },
      signal: AbortSignal.any([signal, AbortSignal.timeout(lookMs)]),
    });
    await response.body?.cancel();
    return response.status === 401 ? "refused" : "fine";
  } catch (error) {
    signal.throwIfAborted();
    const isBadPort = error instanceof Error && /\bbad port\b/.test(String(error.cause));
    return isBadPort || isUnreachable(error) ? "unreachable" : "fine";
  }
}
