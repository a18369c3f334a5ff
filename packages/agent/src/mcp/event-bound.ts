import { errorText } from "@sandpiper/core/errors";

/** How a body ended: with a protocol problem, after a silence, or normally. */
export interface StreamEnd {
  problem?: string;
  silence?: string;
}

interface BodyOptions {
  maxBytes: number;
  isStream: boolean;
  /** ms. */
  silenceMs?: number | undefined;
  onEnd: (resumable: boolean, end: StreamEnd) => void;
}

/**
 * Limits a body: one message (a server-sent event, or the whole body) has at most `maxBytes`, and a
 * stream is silent for at most `silenceMs`. `onEnd` receives whether events had ids, so that the
 * stream can be resumed.
 */
export function boundedBody(
  body: ReadableStream<Uint8Array>,
  { maxBytes, isStream, silenceMs, onEnd }: BodyOptions,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let length = 0;
  let resumable = false;
  let silent = false;
  let tail = Buffer.alloc(0);
  const silence =
    silenceMs === undefined ? "" : `It sent nothing for ${Math.max(1, Math.round(silenceMs / 1000))} s.`;
  const next = async () => {
    if (!isStream || silenceMs === undefined) return reader.read();
    const { promise, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      silent = true;
      reject(new Error(silence));
    }, silenceMs);
    return Promise.race([reader.read(), promise]).finally(() => clearTimeout(timer));
  };
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await next();
          if (done) {
            controller.close();
            return onEnd(resumable, {});
          }
          resumable ||=
            isStream &&
            /(?:^|\n|\r)id:/.test(
              Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("latin1"),
            );
          // An empty line may be split over two chunks.
          const seen = isStream ? Buffer.concat([tail, value]) : tail;
          const last = lastEmptyLine(seen);
          length = last === -1 ? length + value.length : seen.length - last;
          tail = seen.subarray(-3);
          if (length > maxBytes)
            throw new Error(`It sent a message of more than ${maxBytes / 1024 / 1024} MB.`);
          controller.enqueue(value);
        } catch (error) {
          void reader.cancel().catch(() => {});
          controller.error(error);
          onEnd(resumable, length > maxBytes ? { problem: errorText(error) } : silent ? { silence } : {});
        }
      },
      async cancel(reason) {
        await reader.cancel(reason);
        onEnd(resumable, {});
      },
    },
    { highWaterMark: 0 },
  );
}

/** Offset of the last empty line, or -1. */
function lastEmptyLine(bytes: Buffer): number {
  return Math.max(...["\n\n", "\r\n\r\n", "\r\r"].map((end) => bytes.lastIndexOf(end)));
}
