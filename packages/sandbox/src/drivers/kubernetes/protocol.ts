import { constants } from "node:os";

/**
 * Size of the header of a frame, bytes. Driver and helper exchange frames. A frame is the length of
 * its payload (4 bytes, big endian), its type (1 byte), its channel (4 bytes) and its payload.
 * `helper/helper.h` has the same numbers.
 */
const headerBytes = 9;
/** Maximum size of a payload from the helper, bytes. A larger frame ends the connection. */
const maxFrameBytes = 64 * 1024;

export const request = {
  run: 1,
  input: 2,
  finish: 3,
  allow: 4,
  signal: 5,
  resize: 6,
  connect: 7,
  listen: 8,
  close: 9,
  put: 10,
  folder: 11,
  freeze: 12,
  thaw: 13,
  ping: 14,
} as const;

export const answer = {
  hello: 64,
  output: 65,
  ended: 66,
  exited: 67,
  taken: 68,
  done: 69,
  failed: 70,
  accepted: 71,
} as const;

export interface Frame {
  type: number;
  channel: number;
  payload: Buffer;
}

export function encodeFrame(type: number, channel: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const frame = Buffer.allocUnsafe(headerBytes + payload.length);
  frame.writeUInt32BE(payload.length, 0);
  frame[4] = type;
  frame.writeUInt32BE(channel, 5);
  payload.copy(frame, headerBytes);
  return frame;
}

/** Cuts a stream of bytes into frames. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  /** Returns the frames that a chunk completes; undefined when the bytes are no frame. */
  read(chunk: Buffer): Frame[] | undefined {
    let bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    const frames: Frame[] = [];
    while (bytes.length >= headerBytes) {
      const length = bytes.readUInt32BE(0);
      if (length > maxFrameBytes) return undefined;
      const end = headerBytes + length;
      if (bytes.length < end) break;
      frames.push({
        type: bytes[4]!,
        channel: bytes.readUInt32BE(5),
        payload: bytes.subarray(headerBytes, end),
      });
      bytes = bytes.subarray(end);
    }
    this.#rest = bytes;
    return frames;
  }
}

export interface HelperCommand {
  argv: string[];
  cwd: string;
  /** All variables of the command. */
  env: Record<string, string>;
  tty?: { cols: number; rows: number } | undefined;
}

export function encodeCommand({ argv, cwd, env, tty }: HelperCommand): Buffer {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const texts = [cwd, ...argv, ...variables].map((text) => `${text}\0`).join("");
  const head = Buffer.alloc(13);
  head[0] = tty ? 1 : 0;
  head.writeUInt16BE(clampSize(tty?.cols ?? 0), 1);
  head.writeUInt16BE(clampSize(tty?.rows ?? 0), 3);
  head.writeUInt32BE(argv.length, 5);
  head.writeUInt32BE(variables.length, 9);
  return Buffer.concat([head, Buffer.from(texts)]);
}

export function encodeSize(cols: number, rows: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt16BE(clampSize(cols), 0);
  payload.writeUInt16BE(clampSize(rows), 2);
  return payload;
}

function clampSize(cells: number): number {
  return Math.max(0, Math.min(65_535, Math.floor(cells)));
}

export function encodePort(port: number): Buffer {
  const payload = Buffer.alloc(2);
  payload.writeUInt16BE(port);
  return payload;
}

/** Encodes the permission to send so many more bytes of a stream. */
export function encodeAllowance(stream: number, bytes: number): Buffer {
  const payload = Buffer.alloc(5);
  payload[0] = stream;
  payload.writeUInt32BE(bytes, 1);
  return payload;
}

export function encodeSignal(signal: NodeJS.Signals): Buffer {
  return Buffer.from([constants.signals[signal]]);
}

export interface PutFile {
  path: string;
  mode: number;
  uid: number;
  gid: number;
  content: Buffer;
}

export function encodeFile({ path, mode, uid, gid, content }: PutFile): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt32BE(mode, 0);
  head.writeUInt32BE(uid, 4);
  head.writeUInt32BE(gid, 8);
  return Buffer.concat([head, Buffer.from(`${path}\0`), content]);
}

export function encodeFolder({ path, uid, gid }: { path: string; uid: number; gid: number }): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt32BE(uid, 0);
  head.writeUInt32BE(gid, 4);
  return Buffer.concat([head, Buffer.from(`${path}\0`)]);
}

/** A request that the helper could not carry out. */
export class HelperError extends Error {
  readonly errno: number;

  constructor(payload: Buffer) {
    super(payload.length > 4 ? payload.toString("utf8", 4) : "it gave no reason");
    this.errno = payload.length >= 4 ? payload.readUInt32BE(0) : 0;
  }
}
