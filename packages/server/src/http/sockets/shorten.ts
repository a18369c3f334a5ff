/**
 * Maximum outbound frame in bytes: released Python clients drop a socket after a frame over 1 MiB,
 * reconnect, and get the same frame again (remote-clients.md section 5).
 */
export const maxFrameBytes = 1024 * 1024 - 16 * 1024;

const smallestCap = 64;

/**
 * Fits a frame into `limit` bytes by cutting its longest texts (file contents, outputs, images) to
 * one length, with a note; the stored event stays whole. Undefined if cutting texts does not
 * suffice.
 */
export function fitFrame(json: string, limit = maxFrameBytes): string | undefined {
  // A UTF-16 unit takes at most 3 bytes, so most frames fit without counting.
  if (json.length * 3 <= limit || Buffer.byteLength(json) <= limit) return json;
  const frame: unknown = JSON.parse(json);
  for (let cap = limit >> 2; cap >= smallestCap; cap >>= 1) {
    const shortened = JSON.stringify(truncate(frame, cap));
    if (Buffer.byteLength(shortened) <= limit) return shortened;
  }
  return undefined;
}

function truncate(value: unknown, cap: number): unknown {
  if (typeof value === "string") return truncateText(value, cap);
  if (Array.isArray(value))
    return value.filter((item) => !isLongImage(item, cap)).map((item) => truncate(item, cap));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, truncate(item, cap)]));
}

/** A part of an image is useless. */
function isLongImage(item: unknown, cap: number): boolean {
  return typeof item === "string" && item.length > cap && item.startsWith("data:");
}

function truncateText(text: string, cap: number): string {
  if (text.length <= cap) return text;
  const kept = cap >> 1;
  return `${text.slice(0, kept)}\n[${text.length - 2 * kept} characters are left out of this frame]\n${text.slice(-kept)}`;
}
