/** The kind of a connection's first bytes. */
export type Opening =
  | { kind: "more" }
  | { kind: "other" }
  /** A TLS ClientHello; null without a server name. */
  | { kind: "tls"; serverName: string | null };

const handshake = 22;
const clientHello = 1;
const serverNameExtension = 0;
/** Limit of a ClientHello, bytes: post-quantum keys take some kilobytes. */
export const maxHelloBytes = 16_384 + 5;

/** Parses a client's first bytes. `more`: an incomplete ClientHello. A malformed one is `other`. */
export function parseOpening(bytes: Buffer): Opening {
  return new OpeningReader().push(bytes);
}

const headerBytes = 5;

/**
 * Reads a client's first bytes as they come. Each byte is read once: a client may send records of
 * one byte.
 */
export class OpeningReader {
  readonly #hello: Buffer = Buffer.alloc(4 + maxHelloBytes);
  readonly #header: Buffer = Buffer.alloc(headerBytes);
  #headerLength = 0;
  /** Bytes of the current record that are missing. */
  #left = 0;
  #have = 0;
  #total = 0;
  #opening: Opening = { kind: "more" };

  /** The kind of all bytes so far; it stays once it is not `more`. */
  push(bytes: Buffer): Opening {
    for (let at = 0; at < bytes.length && this.#opening.kind === "more"; ) {
      const taken = this.#left === 0 ? this.#takeHeader(bytes[at]!) : this.#takeBody(bytes.subarray(at));
      at += taken;
      this.#total += taken;
      if (this.#opening.kind === "more" && this.#total >= 2 * maxHelloBytes) this.#end({ kind: "other" });
    }
    return this.#opening;
  }

  #takeHeader(byte: number): number {
    this.#header[this.#headerLength++] = byte;
    if (byte !== handshake && this.#headerLength === 1) this.#end({ kind: "other" });
    if (this.#headerLength === headerBytes) {
      this.#headerLength = 0;
      this.#left = this.#header.readUInt16BE(3);
      if (this.#left === 0 || this.#left > 16_384) this.#end({ kind: "other" });
    }
    return 1;
  }

  #takeBody(bytes: Buffer): number {
    const room = this.#hello.length - this.#have;
    const taken = Math.min(this.#left, bytes.length, room);
    bytes.copy(this.#hello, this.#have, 0, taken);
    this.#have += taken;
    this.#left -= taken;
    if (this.#have < 4) return taken;
    const need = 4 + this.#hello.readUIntBE(1, 3);
    if (this.#hello[0] !== clientHello || need > maxHelloBytes) this.#end({ kind: "other" });
    else if (this.#have >= need) this.#end(toOpening(this.#hello.subarray(4, need)));
    return taken;
  }

  #end(opening: Opening): void {
    this.#opening = opening;
  }
}

function toOpening(hello: Buffer): Opening {
  try {
    return { kind: "tls", serverName: parseServerName(hello) };
  } catch (error) {
    if (error instanceof RangeError) return { kind: "other" };
    throw error;
  }
}

/**
 * The lower-case server name of a ClientHello. Throws RangeError for a malformed one or two names.
 */
function parseServerName(hello: Buffer): string | null {
  let at = 2 + 32;
  at += 1 + hello.readUInt8(at);
  at += 2 + hello.readUInt16BE(at);
  at += 1 + hello.readUInt8(at);
  if (at === hello.length) return null;
  const end = at + 2 + hello.readUInt16BE(at);
  if (end !== hello.length) throw new RangeError("broken extensions");
  let found: string | null = null;
  for (at += 2; at < end; ) {
    const type = hello.readUInt16BE(at);
    const length = hello.readUInt16BE(at + 2);
    if (at + 4 + length > end) throw new RangeError("broken extension");
    if (type === serverNameExtension) {
      if (found !== null) throw new RangeError("two names");
      found = parseHostName(hello.subarray(at + 4, at + 4 + length));
    }
    at += 4 + length;
  }
  return found;
}

function parseHostName(list: Buffer): string {
  const length = list.readUInt16BE(3);
  if (list.readUInt16BE(0) !== list.length - 2 || list.readUInt8(2) !== 0 || length !== list.length - 5)
    throw new RangeError("broken name");
  return list.toString("latin1", 5).toLowerCase();
}
