import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { freeBuffers } from "./free-buffers.ts";

/**
 * Pipes a stream into a command's stdin and closes it. Resolves with the number of bytes and the
 * source's error. When the command stops reading, its exit code shows why; the rest of the source
 * is drained so that its sender gets a response.
 */
export async function pipeToStdin(
  source: Readable,
  stdin: Writable,
  signal?: AbortSignal,
): Promise<{ bytes: number; sourceError: Error | undefined }> {
  let bytes = 0;
  let sourceError: Error | undefined;
  async function* counted(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of freeBuffers(source.iterator({ destroyOnReturn: false }))) {
        bytes += chunk.length;
        yield chunk;
      }
    } catch (error) {
      sourceError = error as Error;
      throw error;
    }
  }
  await pipeline(counted, stdin, signal ? { signal } : {}).catch((error: Error) => {
    if (signal?.aborted) sourceError ??= error;
  });
  if (!sourceError) source.on("error", () => {}).resume();
  return { bytes, sourceError };
}
