import { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";

/** Maximum length of a part's head, bytes. */
const maxHead = 16_384;

/** Maximum number of parts before the file: each costs as much as a thousand bytes of a file. */
const maxParts = 100;

/**
 * The content of the first part named `name` of a multipart/form-data body (RFC 7578), read at the
 * consumer's pace; earlier parts are skipped. The stream fails with BadRequest when the body ends
 * within the part. Throws UnsupportedMediaType, BadRequest.
 */
export async function parseFormFile(
  body: Readable,
  contentType: string | undefined,
  name: string,
): Promise<Readable> {
  const [, quoted, plain] =
    /^multipart\/form-data\s*;.*?\bboundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))/i.exec(contentType ?? "") ??
    [];
  const boundary = quoted ?? plain;
  if (boundary === undefined) {
    throw new PlatformError("MediaTypeNotMultipart");
  }
  const reader = new BodyReader(body);
  const delimiter = Buffer.from(`\r\n--${boundary}`, "latin1");
  for (let parts = 0; ; parts++) {
    if (parts > maxParts)
      throw new PlatformError("MultipartInvalid", {
        reason: `the form has more than ${maxParts} parts before its field ${name}`,
      });
    for await (const _ of reader.readUntil(delimiter)) {
      // Skip other parts.
    }
    const head = await reader.readHead();
    if (head === undefined)
      throw new PlatformError("MultipartInvalid", { reason: `the form has no file in its field ${name}` });
    if (parsePartName(head) === name)
      return Readable.from(reader.readUntil(delimiter), { objectMode: false });
  }
}

/** Splits a body at delimiters; buffers at most about one chunk. */
class BodyReader {
  readonly #chunks: AsyncIterator<Buffer>;
  /** The first delimiter may begin the body, without the line end of the others. */
  #rest: Buffer = Buffer.from("\r\n");

  constructor(body: Readable) {
    this.#chunks = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  /**
   * Yields the bytes before the delimiter and consumes it. Throws BadRequest when it is missing.
   */
  async *readUntil(delimiter: Buffer): AsyncGenerator<Buffer> {
    for (;;) {
      const at = this.#rest.indexOf(delimiter);
      // The buffer's end may be the beginning of the delimiter.
      const sure = at >= 0 ? at : this.#rest.length - delimiter.length + 1;
      const part = this.#rest.subarray(0, Math.max(0, sure));
      this.#rest = this.#rest.subarray(at >= 0 ? at + delimiter.length : part.length);
      if (part.length > 0) yield part;
      if (at >= 0) return;
      await this.#readMore();
    }
  }

  /** The header lines of the next part; undefined at the end of the form. */
  async readHead(): Promise<string | undefined> {
    for (;;) {
      if (this.#rest.subarray(0, 2).toString("latin1") === "--") return undefined;
      const end = this.#rest.indexOf("\r\n\r\n");
      if (end >= 0 && end <= maxHead) {
        const head = this.#rest.toString("utf8", 0, end);
        this.#rest = this.#rest.subarray(end + 4);
        return head;
      }
      if (this.#rest.length > maxHead)
        throw new PlatformError("MultipartInvalid", { reason: "a part has a very long head" });
      await this.#readMore();
    }
  }

  async #readMore(): Promise<void> {
    const { value, done } = await this.#chunks.next();
    if (done) throw new PlatformError("MultipartInvalid", { reason: "it ends early" });
    this.#rest = Buffer.concat([this.#rest, value]);
  }
}

function parsePartName(head: string): string | undefined {
  const [, quoted, plain] =
    /^content-disposition:\s*form-data\b.*?;\s*name=(?:"([^"]*)"|([^\s;"]+))/im.exec(head) ?? [];
  return quoted ?? plain;
}
