import { PlatformError } from "@sandpiper/core/errors";
import type { CallOptions } from "./call-options.ts";

/**
 * Connection headers. `host` could send a key of the operator to another site behind the same
 * address.
 */
const connectionHeaders =
  /^(?:host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-(?:length|type|encoding)|proxy-.*)$/i;

/** Essential fields of a request, which clients cannot override. */
const ownFields = new Set([
  "model",
  "messages",
  "input",
  "contents",
  "system",
  "systemInstruction",
  "tools",
  "stream",
]);

/**
 * A fetch that adds the client's headers and body fields. Throws ModelNotConfigured, without the
 * value, for an invalid header.
 */
export function withExtraHeaders(
  fetch: typeof globalThis.fetch,
  options: CallOptions,
): typeof globalThis.fetch {
  const { headers: extra, extraBody } = options;
  if (extra) checkHeaders(extra);
  const fields = Object.fromEntries(Object.entries(extraBody ?? {}).filter(([name]) => !ownFields.has(name)));
  const hasFields = Object.keys(fields).length > 0;
  if (!extra && !hasFields) return fetch;
  return (input, init) => {
    const headers = new Headers(init?.headers);
    for (const [name, value] of Object.entries(extra ?? {})) headers.set(name, value);
    const body =
      hasFields && typeof init?.body === "string"
        ? JSON.stringify({ ...JSON.parse(init.body), ...fields })
        : init?.body;
    return fetch(input, { ...init, headers, ...(body !== undefined && { body }) });
  };
}

/** Refuses additional headers that cannot be sent. Throws ModelNotConfigured. */
export function checkHeaders(headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) {
    const shown = JSON.stringify(name.slice(0, 100));
    if (!/^[!#$%&'*+.^_`|~\w-]+$/.test(name) || connectionHeaders.test(name)) {
      throw new PlatformError("ModelHeaderUnusable", { header: shown });
    }
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
      throw new PlatformError("ModelHeaderCharacter", { header: shown });
    }
  }
}
