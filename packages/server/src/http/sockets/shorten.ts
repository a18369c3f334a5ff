import { cutTexts } from "../server/cut-texts.ts";

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
    const shortened = JSON.stringify(cutTexts(frame, cap));
    if (Buffer.byteLength(shortened) <= limit) return shortened;
  }
  return undefined;
}
