/** Bytes of a server's message. */
export const maxMessageBytes = 8 * 1024 * 1024;

/** Splits a stream into lines. Stops with `onTooLong` at a line above `maxMessageBytes`. */
export class LineReader {
  readonly #onLine: (line: string) => void;
  readonly #onTooLong: () => void;
  #pieces: Buffer[] = [];
  #length = 0;
  #ended = false;

  constructor(onLine: (line: string) => void, onTooLong: () => void) {
    this.#onLine = onLine;
    this.#onTooLong = onTooLong;
  }

  take(chunk: Buffer): void {
    let from = 0;
    while (!this.#ended) {
      const end = chunk.indexOf(10, from);
      const piece = chunk.subarray(from, end === -1 ? chunk.length : end);
      this.#length += piece.length;
      if (this.#length > maxMessageBytes) {
        this.end();
        this.#onTooLong();
        return;
      }
      if (end === -1) {
        // A copy: the chunk may be a small part of a large buffer.
        if (piece.length > 0) this.#pieces.push(Buffer.from(piece));
        return;
      }
      const line = this.#pieces.length === 0 ? piece : Buffer.concat([...this.#pieces, piece]);
      this.#pieces = [];
      this.#length = 0;
      from = end + 1;
      this.#onLine(line.toString("utf8").trim());
    }
  }

  end(): void {
    this.#ended = true;
    this.#pieces = [];
  }
}
