import { createGunzip } from "node:zlib";
import type { Dispatcher } from "undici";
import { PlatformError } from "../errors.ts";

type Answer = Dispatcher.ResponseData;

/** Statuses that have no body by definition; `Response` refuses one for them. */
const bodiless = new Set([204, 205, 304]);

/**
 * Converts an answer of undici to a `Response` with a decompressed body, which fails after
 * `maxBytes`. `explain` maps errors of reading.
 */
export function toResponse(answer: Answer, maxBytes: number, explain: (error: unknown) => Error): Response {
  const headers = new Headers();
  for (const [name, value] of Object.entries(answer.headers)) {
    for (const one of [value ?? []].flat()) headers.append(name, one);
  }
  const encoding = headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  headers.delete("content-encoding");
  if (encoding !== "identity") headers.delete("content-length");
  const body = bodiless.has(answer.statusCode)
    ? null
    : stream(answer, bounded(answer, encoding, maxBytes, explain));
  if (!body) answer.body.destroy();
  return new Response(body, { status: answer.statusCode, headers });
}

/** Streams chunks on demand; cancelling the stream closes the connection. */
function stream({ body }: Answer, pieces: AsyncGenerator<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => void body.destroy(),
    },
    { highWaterMark: 0 },
  );
}

/** Pieces of the body as they arrive; nothing is decompressed ahead of the reader. */
async function* bounded(
  { body }: Answer,
  encoding: string,
  maxBytes: number,
  explain: (error: unknown) => Error,
) {
  let total = 0;
  try {
    for await (const piece of decoded(body, encoding)) {
      total += piece.byteLength;
      if (total > maxBytes) throw new PlatformError("ResponseTooLong", { maxBytes });
      yield new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength);
    }
  } catch (error) {
    throw explain(error);
  } finally {
    body.destroy();
  }
}

/** Only gzip was offered: other encodings can ask for much more memory than they send. */
function decoded(body: Answer["body"], encoding: string): AsyncIterable<Buffer> {
  if (encoding === "identity" || encoding === "") return body;
  if (encoding !== "gzip" && encoding !== "x-gzip") {
    throw new PlatformError("ResponseEncodingUnsupported");
  }
  const gunzip = createGunzip();
  body.on("error", (error) => gunzip.destroy(error));
  return body.pipe(gunzip);
}
