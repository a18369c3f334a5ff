import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";

/**
 * Gives a stream to a command as its stdin, as fast as the command takes it, and then the end. Resolves with the number of bytes, and with
 * the error of a source that broke (`cut`). A command that takes no more is no error: its exit code tells why, and the rest of the source
 * is dropped, so that its sender can still be told.
 */
export async function pipeToStdin(
  source: Readable,
  stdin: Writable,
  signal?: AbortSignal,
): Promise<{ bytes: number; cut: Error | undefined }> {
  let bytes = 0;
  let cut: Error | undefined;
  async function* counted(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of source.iterator({ destroyOnReturn: false })) {
        bytes += chunk.length;
        yield chunk;
      }
    } catch (error) {
      cut = error as Error;
      throw error;
    }
  }
  await pipeline(counted, stdin, signal ? { signal } : {}).catch((error: Error) => {
    if (signal?.aborted) cut ??= error;
  });
  if (!cut) source.on("error", () => {}).resume();
  return { bytes, cut };
}
