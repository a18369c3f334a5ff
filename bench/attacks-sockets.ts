import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { type Attack, address, dial, head, keepOpen, keyLine, loops, type Target } from "./attacks-target.ts";

/** Asks for a WebSocket at a path; without a key it waits for the frame that brings one. */
export function upgrade(target: Target, path: string, withKey: boolean, from?: string): Socket {
  const socket = dial(target, from);
  const lines = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"];
  const nonce = `Sec-WebSocket-Key: ${randomBytes(16).toString("base64")}`;
  socket.write(head(target, `GET ${path}`, ...lines, nonce, ...(withKey ? [keyLine(target)] : [])));
  return socket;
}

/** A client's frame, masked with zeros. */
function frame(opcode: number, payload: string | Buffer, final = true): Buffer {
  const bytes = Buffer.from(payload);
  const header = Buffer.alloc(bytes.length < 126 ? 2 : 4);
  header[0] = opcode | (final ? 0x80 : 0);
  header[1] = 0x80 | Math.min(bytes.length, 126);
  if (bytes.length >= 126) header.writeUInt16BE(bytes.length, 2);
  return Buffer.concat([header, Buffer.alloc(4), bytes]);
}

const repeat = (count: number, bytes: Buffer) => Buffer.concat(Array.from({ length: count }, () => bytes));
export const events = ({ conversationId }: Target) => `/sockets/events/${conversationId}`;

/** Sends the same frames again and again over some sockets that have a key. */
function frames(lanes: number, bytes: Buffer, begin: Buffer = Buffer.alloc(0)): Attack["run"] {
  return async (target, signal) =>
    loops(lanes, signal, async () => {
      const socket = upgrade(target, events(target), true);
      await new Promise<void>((resolve) => {
        const send = () => {
          while (!signal.aborted && socket.writable && socket.write(bytes));
        };
        socket.once("data", () => socket.write(begin, send));
        socket.on("drain", send).once("close", () => resolve());
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      socket.destroy();
    });
}

/** Attacks over WebSockets. */
export const socketAttacks: readonly Attack[] = [
  {
    name: "1,200 half-open upgrades",
    needsPlatform: true,
    run: (target, signal) =>
      keepOpen(1_200, signal, (index) => upgrade(target, events(target), false, address(index))),
  },
  {
    name: "upgrades again and again",
    needsPlatform: true,
    run: (target, signal) =>
      loops(50, signal, async (lane) => {
        const socket = upgrade(target, events(target), false, address(lane));
        await new Promise((resolve) => socket.once("data", resolve).once("close", resolve));
        socket.destroy();
      }),
  },
  { name: "frames of one byte", needsPlatform: true, run: frames(4, repeat(8_000, frame(1, "1"))) },
  { name: "pings", needsPlatform: true, run: frames(4, repeat(8_000, frame(9, "1"))) },
  {
    name: "one message of fragments of one byte",
    needsPlatform: true,
    run: frames(4, repeat(8_000, frame(0, "1", false)), frame(1, "1", false)),
  },
  {
    name: "frames that are no messages",
    needsPlatform: true,
    run: frames(4, repeat(1_000, frame(1, `{"role":"user","content":[${'{"type":"text"},'.repeat(40)}1]}`))),
  },
  {
    name: "200 followers of the whole log that never read",
    needsPlatform: true,
    run: (target, signal) =>
      keepOpen(200, signal, () => upgrade(target, `${events(target)}?resend_mode=all`, true).pause()),
  },
  {
    name: "1,900 followers of the whole log at once",
    needsPlatform: true,
    run: (target, signal) =>
      keepOpen(1_900, signal, () => upgrade(target, `${events(target)}?resend_mode=all`, true)),
  },
  {
    name: "followers of the whole log again and again",
    needsPlatform: true,
    run: (target, signal) =>
      loops(50, signal, async () => {
        const socket = upgrade(target, `${events(target)}?resend_mode=all`, true);
        await new Promise((resolve) =>
          socket.once("data", () => setTimeout(resolve, 20)).once("close", resolve),
        );
        socket.destroy();
      }),
  },
  {
    name: "100 terminals",
    needsPlatform: true,
    run: (target, signal) =>
      keepOpen(100, signal, () =>
        upgrade(target, `/sockets/terminal?sandbox_id=${target.sandboxId}&cols=80&rows=24`, true),
      ),
  },
];
