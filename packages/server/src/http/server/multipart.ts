import { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";

/** Longest head of a part, bytes. */
const maxHead = 16_384;

/**
 * The content of the first part named `name` of a multipart/form-data body (RFC 7578), read only as fast as it is taken. Parts before it are
 * passed over. The stream fails with BadRequest when the body ends within the part. Throws UnsupportedMediaType, BadRequest.
 */
export async function formFile(
  body: Readable,
  contentType: string | undefined,
  name: string,
): Promise<Readable> {
  const [, quoted, plain] =
    /^multipart\/form-data\s*;.*?\bboundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))/i.exec(contentType ?? "") ??
    [];
  const boundary = quoted ?? plain;
  if (boundary === undefined) {
    throw new PlatformError(
      "UnsupportedMediaType",
      "Unsupported media type: send multipart/form-data with a boundary",
    );
  }
  const reader = new BodyReader(body);
  const delimiter = Buffer.from(`\r\n--${boundary}`, "latin1");
  for (;;) {
    for await (const _ of reader.until(delimiter)) {
      // What is not asked for.
    }
    const head = await reader.head();
    if (head === undefined) throw broken(`the form has no file in its field ${name}`);
    if (partName(head) === name) return Readable.from(reader.until(delimiter), { objectMode: false });
  }
}

/** Takes a body apart at delimiters; holds no more of it than a chunk. */
class BodyReader {
  readonly #chunks: AsyncIterator<Buffer>;
  /** The first delimiter may stand at the very beginning, without the line end that belongs to the others. */
  #rest: Buffer = Buffer.from("\r\n");

  constructor(body: Readable) {
    this.#chunks = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  /** The bytes before the delimiter, which is taken too. Throws BadRequest where it does not come. */
  async *until(delimiter: Buffer): AsyncGenerator<Buffer> {
    for (;;) {
      const at = this.#rest.indexOf(delimiter);
      // The end of what is there may be the beginning of the delimiter.
      const sure = at >= 0 ? at : this.#rest.length - delimiter.length + 1;
      const part = this.#rest.subarray(0, Math.max(0, sure));
      this.#rest = this.#rest.subarray(at >= 0 ? at + delimiter.length : part.length);
      if (part.length > 0) yield part;
      if (at >= 0) return;
      await this.#more();
    }
  }

  /** The header lines of the part that begins here; undefined at the end of the form. */
  async head(): Promise<string | undefined> {
    for (;;) {
      if (this.#rest.subarray(0, 2).toString("latin1") === "--") return undefined;
      const end = this.#rest.indexOf("\r\n\r\n");
      if (end >= 0 && end <= maxHead) {
        const head = this.#rest.toString("utf8", 0, end);
        this.#rest = this.#rest.subarray(end + 4);
        return head;
      }
      if (this.#rest.length > maxHead) throw broken("a part has a very long head");
      await this.#more();
    }
  }

  async #more(): Promise<void> {
    const { value, done } = await this.#chunks.next();
    if (done) throw broken("it ends early");
    this.#rest = Buffer.concat([this.#rest, value]);
  }
}

function partName(head: string): string | undefined {
  const [, quoted, plain] =
    /^content-disposition:\s*form-data\b.*?;\s*name=(?:"([^"]*)"|([^\s;"]+))/im.exec(head) ?? [];
  return quoted ?? plain;
}

function broken(why: string): PlatformError {
  return new PlatformError("BadRequest", `The multipart body cannot be read: ${why}.`);
}
