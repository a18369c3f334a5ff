/**
 * Largest outbound frame in bytes: released Python clients end a socket that sends them more than 1 MiB, reconnect, and get the
 * same frame again (remote-clients.md section 5).
 */
export const maxFrameBytes = 1024 * 1024 - 16 * 1024;

const smallestCap = 64;

/**
 * A frame that fits into `limit` bytes. Of one that does not, the longest texts (file contents, outputs, images) are cut in a copy,
 * all to the same length, and say so; the stored event, which the REST routes give, is whole.
 * Undefined when it cannot be made to fit because it is long by something else than long texts.
 */
export function fitFrame(json: string, limit = maxFrameBytes): string | undefined {
  // A UTF-16 unit takes at most 3 bytes, so most frames are known to fit without counting.
  if (json.length * 3 <= limit || Buffer.byteLength(json) <= limit) return json;
  const frame: unknown = JSON.parse(json);
  for (let cap = limit >> 2; cap >= smallestCap; cap >>= 1) {
    const shortened = JSON.stringify(cut(frame, cap));
    if (Buffer.byteLength(shortened) <= limit) return shortened;
  }
  return undefined;
}

function cut(value: unknown, cap: number): unknown {
  if (typeof value === "string") return cutText(value, cap);
  if (Array.isArray(value))
    return value.filter((item) => !isLongImage(item, cap)).map((item) => cut(item, cap));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cut(item, cap)]));
}

/** An image is of no use in parts. */
function isLongImage(item: unknown, cap: number): boolean {
  return typeof item === "string" && item.length > cap && item.startsWith("data:");
}

function cutText(text: string, cap: number): string {
  if (text.length <= cap) return text;
  const kept = cap >> 1;
  return `${text.slice(0, kept)}\n[${text.length - 2 * kept} characters are left out of this frame]\n${text.slice(-kept)}`;
}
