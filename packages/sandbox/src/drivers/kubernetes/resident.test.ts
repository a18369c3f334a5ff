import { expect, test } from "vitest";
import type { ExecListener } from "./exec-stream.ts";
import { answer, encodeFrame, FrameReader, request } from "./protocol.ts";
import { Resident } from "./resident.ts";

/** Opens a connection to a helper that sends the frames of a test, as a hostile sandbox may. */
async function openResident() {
  let listener!: ExecListener;
  const sent: { type: number; channel: number; payload: Buffer }[] = [];
  const frames = new FrameReader();
  let isClosed = false;
  const resident = await Resident.open(async (own) => {
    listener = own;
    queueMicrotask(() => own.onOutput(encodeFrame(answer.hello, 0)));
    return {
      send: (bytes) => void sent.push(...(frames.read(bytes) ?? [])),
      unsent: 0,
      close: () => {
        isClosed = true;
      },
    };
  });
  const send = (type: number, channel: number, payload?: Buffer) =>
    listener.onOutput(encodeFrame(type, channel, payload));
  return { resident, sent, send, raw: listener, isClosed: () => isClosed };
}

const number = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};

test("frames arrive in pieces of any size", () => {
  const reader = new FrameReader();
  const bytes = Buffer.concat([
    encodeFrame(answer.output, 7, Buffer.from("\0abc")),
    encodeFrame(answer.exited, 7, number(3)),
  ]);
  const frames = Array.from(bytes, (_, at) => reader.read(bytes.subarray(at, at + 1))!).flat();
  expect(frames.map(({ type, channel, payload }) => [type, channel, payload.toString("latin1")])).toEqual([
    [answer.output, 7, "\0abc"],
    [answer.exited, 7, "\0\0\0\x03"],
  ]);
});

test("a frame that is too long ends the connection and its commands", async () => {
  const { resident, raw, isClosed } = await openResident();
  const process = resident.run({ argv: ["sleep", "9"], cwd: "/", env: {} });
  const endless = encodeFrame(answer.output, 1);
  endless.writeUInt32BE(2 ** 31, 0);
  raw.onOutput(endless);
  expect(await process.exit).toEqual({ code: null, signal: "SIGKILL" });
  expect([resident.isOpen, isClosed()]).toEqual([false, true]);
  await expect(resident.freeze()).rejects.toThrow(/something else than frames/);
  expect(await resident.run({ argv: ["true"], cwd: "/", env: {} }).exit).toMatchObject({ signal: "SIGKILL" });
});

test("frames for unknown channels, of unknown types and without their payload change nothing", async () => {
  const { resident, send } = await openResident();
  const process = resident.run({ argv: ["true"], cwd: "/", env: {} });
  process.stdout.resume();
  for (const type of [0, 1, 200, ...Object.values(answer)]) {
    send(type, 4_000_000_000, Buffer.from("x"));
    if (![answer.failed, answer.ended].includes(type as never)) send(type, 1);
  }
  expect(resident.isOpen).toBe(true);
  send(answer.exited, 1, number(0));
  expect(await process.exit).toEqual({ code: 0, signal: null });
  send(answer.output, 1, Buffer.from("\0late"));
});

test("a helper that sends more than a reader allows loses its connection", async () => {
  const { resident, send } = await openResident();
  const process = resident.run({ argv: ["cat", "/dev/zero"], cwd: "/", env: {} });
  const piece = Buffer.alloc(32 * 1024);
  for (let index = 0; index < 15; index++) send(answer.output, 1, piece);
  expect(resident.isOpen).toBe(true);
  for (let index = 0; index < 10; index++) send(answer.output, 1, piece);
  expect(resident.isOpen).toBe(false);
  expect(process.stdout.readableLength).toBeLessThan(2 ** 20);
  expect(await process.exit).toMatchObject({ signal: "SIGKILL" });
});

test("connections that no listener asked for, with a used id, or too many are refused", async () => {
  const { resident, sent, send } = await openResident();
  const listening = resident.listen(3128, () => {});
  send(answer.done, 1);
  await listening;
  const first = 0x4000_0000;
  const closed = () => sent.filter(({ type }) => type === request.close).map(({ channel }) => channel);
  send(answer.accepted, first, number(99));
  send(answer.accepted, 5, number(1));
  send(answer.accepted, first, Buffer.from("short"));
  expect(closed()).toEqual([first, 5, first]);
  for (let index = 0; index < 262; index++) send(answer.accepted, first + index, number(1));
  expect(closed().slice(3)).toEqual([256, 257, 258, 259, 260, 261].map((index) => first + index));
  send(answer.accepted, first, number(1));
  expect(closed().at(-1)).toBe(first);
  resident.close();
});
