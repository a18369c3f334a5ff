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
  if (bytes.length === 0) return { kind: "more" };
  if (bytes[0] !== handshake) return { kind: "other" };
  try {
    const hello = joinRecords(bytes);
    return hello === undefined
      ? bytes.length < 2 * maxHelloBytes
        ? { kind: "more" }
        : { kind: "other" }
      : { kind: "tls", serverName: parseServerName(hello) };
  } catch (error) {
    if (error instanceof RangeError) return { kind: "other" };
    throw error;
  }
}

/** Joins the records of a ClientHello; undefined while bytes are missing. */
function joinRecords(bytes: Buffer): Buffer | undefined {
  const parts: Buffer[] = [];
  let at = 0;
  let need = 4;
  for (let have = 0; have < need; ) {
    if (bytes.length < at + 5) return undefined;
    const length = bytes.readUInt16BE(at + 3);
    if (bytes[at] !== handshake || length === 0 || length > 16_384)
      throw new RangeError("no handshake record");
    if (bytes.length < at + 5 + length) return undefined;
    parts.push(bytes.subarray(at + 5, at + 5 + length));
    have += length;
    at += 5 + length;
    if (have >= 4) {
      const start = Buffer.concat(parts);
      if (start[0] !== clientHello) throw new RangeError("no greeting");
      need = 4 + start.readUIntBE(1, 3);
      if (need > maxHelloBytes) throw new RangeError("too long");
    }
  }
  return Buffer.concat(parts).subarray(4, need);
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
