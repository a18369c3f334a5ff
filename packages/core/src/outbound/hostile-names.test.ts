import { createSocket, type RemoteInfo, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addressBytes } from "./addresses.ts";
import { createOutbound } from "./outbound.ts";
import { systemResolve } from "./resolve.ts";

/** A real name server on loopback that answers as an attacker wants. */

const types = { a: 1, cname: 5, aaaa: 28 };
/** What the name server sends for a question; undefined: nothing. */
type Answer = (question: Question, overTcp: boolean) => Buffer | undefined;
interface Question {
  id: Buffer;
  /** The question section as it came. */
  section: Buffer;
  name: string;
  type: number;
}

const places = new Map<string, Answer>();
const asked: string[] = [];
let udp: UdpSocket;
let tcp: Server;
let inside: Server;
let connections = 0;
let outbound: ReturnType<typeof createOutbound>;

beforeAll(async () => {
  tcp = createServer((socket) => {
    socket
      .on("error", () => {})
      .on("data", (bytes: Buffer) => {
        const answer = answerTo(bytes.subarray(2), true);
        if (!answer) return;
        const length = Buffer.alloc(2);
        length.writeUInt16BE(answer.length);
        socket.write(Buffer.concat([length, answer]));
      });
  }).listen(0, "127.0.0.1");
  await once(tcp, "listening");
  const { port } = tcp.address() as { port: number };
  udp = createSocket("udp4").on("message", (bytes: Buffer, { port: to }: RemoteInfo) => {
    const answer = answerTo(bytes, false);
    if (answer) udp.send(answer, to, "127.0.0.1", () => {});
  });
  udp.bind(port, "127.0.0.1");
  await once(udp, "listening");
  inside = createServer(() => connections++).listen(0, "127.0.0.1");
  await once(inside, "listening");
  const resolve = systemResolve({ servers: [`127.0.0.1:${port}`], timeoutMs: 100 });
  outbound = createOutbound({ allowPrivate: ["127.9.9.9/32"], resolve });
});
afterAll(async () => {
  await outbound.close();
  udp.close();
  tcp.close();
  inside.close();
});

function answerTo(bytes: Buffer, overTcp: boolean): Buffer | undefined {
  const labels: string[] = [];
  let at = 12;
  for (; bytes[at] !== 0; at += bytes[at]! + 1)
    labels.push(bytes.toString("latin1", at + 1, at + 1 + bytes[at]!).toLowerCase());
  const name = labels.join(".");
  asked.push(name);
  const section = bytes.subarray(12, at + 5);
  return places.get(name)?.(
    { id: bytes.subarray(0, 2), section, name, type: bytes.readUInt16BE(at + 1) },
    overTcp,
  );
}

function message({ id, section }: Question, records: Buffer[], flags = 0x8180): Buffer {
  const head = Buffer.alloc(12);
  id.copy(head);
  for (const [at, value] of [flags, 1, records.length].entries()) head.writeUInt16BE(value, 2 + 2 * at);
  return Buffer.concat([head, section, ...records]);
}

/** A record of a name; default: of the question. */
function record(type: number, data: Buffer, name = Buffer.from([0xc0, 12])): Buffer {
  const head = Buffer.alloc(10);
  head.writeUInt16BE(type, 0);
  head.writeUInt16BE(1, 2);
  head.writeUInt16BE(data.length, 8);
  return Buffer.concat([name, head, data]);
}

const encodeName = (name: string) =>
  Buffer.concat([
    ...name.split(".").map((label) => Buffer.from([label.length, ...Buffer.from(label)])),
    Buffer.of(0),
  ]);

/** Answers with these addresses, by their family. */
const addresses =
  (...list: string[]): Answer =>
  (question) =>
    message(
      question,
      list
        .filter((one) => (question.type === types.aaaa) === one.includes(":"))
        .map((one) => record(question.type, addressBytes(one))),
    );

/** The code of the error of connecting to a name, its time, and the processor time of it, ms. */
async function attack(name: string, answer: Answer): Promise<{ code: string; took: number; worked: number }> {
  places.set(name, answer);
  const before = process.threadCpuUsage();
  const began = performance.now();
  const port = (inside.address() as { port: number }).port;
  const code = await outbound.connect({ host: name, port }).then(
    (socket) => {
      socket.destroy();
      return "connected";
    },
    (error) => `${error.code}: ${error.message}`,
  );
  const { user, system } = process.threadCpuUsage(before);
  return { code, took: performance.now() - began, worked: (user + system) / 1000 };
}

test.each([
  ["127.0.0.1"],
  ["0.0.0.0"],
  ["169.254.169.254"],
  ["100.100.100.200"],
  ["168.63.129.16"],
  ["10.0.0.1"],
  ["255.255.255.255"],
  ["::1"],
  ["::"],
  ["::ffff:127.0.0.1"],
  ["::ffff:0:127.0.0.1"],
  ["::127.0.0.1"],
  ["64:ff9b::7f00:1"],
  ["64:ff9b:1::7f00:1"],
  ["2002:7f00:1::1"],
  ["2001:0:7f00:1::1"],
  ["fe80::1"],
  ["fec0::1"],
  ["fd00:ec2::254"],
  ["ff02::1"],
  ["5f00::1"],
])("a name that a name server resolves to %s is refused", async (address) => {
  const name = `a${address.replaceAll(/[.:]/g, "-")}.test`;
  const { code } = await attack(name, addresses(address));
  expect(code).toBe(
    `OutboundRefused: ${name} is a private or reserved address: the operator can allow its range with SANDPIPER_OUTBOUND_PRIVATE.`,
  );
  expect(connections).toBe(0);
});

test("a name that changes its address is connected only to an address that was checked", async () => {
  let lookups = 0;
  const { code } = await attack("rebind.test", (question, overTcp) =>
    addresses(lookups++ < 2 ? "127.9.9.9" : "127.0.0.1")(question, overTcp),
  );
  expect(code).toMatch(/^OutboundFailed: rebind\.test cannot be reached on port \d+ \(ECONNREFUSED\)\.$/);
  expect(asked.filter((name) => name === "rebind.test")).toHaveLength(2);
  expect((await attack("rebind.test", addresses("127.0.0.1"))).code).toMatch(/^OutboundRefused/);
  expect(connections).toBe(0);
});

test("hostile answers end soon, without a stall and without a connection inside", async () => {
  const loop: Answer = (question) =>
    message(question, [
      record(types.cname, encodeName("loop.test")),
      record(types.cname, Buffer.from([0xc0, 12])),
    ]);
  const toInside: Answer = (question) =>
    message(question, [
      record(types.cname, encodeName("localhost")),
      record(types.a, addressBytes("127.0.0.1"), encodeName("localhost")),
    ]);
  const many = Array.from({ length: 3_000 }, (_, index) => `127.0.${index >> 8}.${index & 255}`);
  const overTcp =
    (records: Buffer[]): Answer =>
    (question, isTcp) =>
      isTcp ? message(question, records) : message(question, [], 0x8380);
  const cases: [string, Answer, RegExp][] = [
    ["loop.test", loop, /^OutboundFailed/],
    ["alias.test", toInside, /^OutboundRefused|^OutboundFailed/],
    [
      "many.test",
      (question, isTcp) => (isTcp ? addresses(...many)(question, isTcp) : message(question, [], 0x8380)),
      /^OutboundRefused/,
    ],
    ["huge.test", overTcp([record(16, Buffer.alloc(60_000, 0xff))]), /^OutboundFailed/],
    ["silent.test", () => undefined, /^OutboundFailed: The name silent\.test could not be resolved/],
    [
      "stuck.test",
      (question, isTcp) => (isTcp ? undefined : message(question, [], 0x8380)),
      /^OutboundFailed/,
    ],
    [
      "torn.test",
      (question) => message(question, [record(types.a, Buffer.alloc(0))]).subarray(0, -3),
      /^OutboundFailed/,
    ],
    ["noise.test", ({ id }) => Buffer.concat([id, Buffer.alloc(500, 0xc0)]), /^OutboundFailed/],
    [
      "pointer.test",
      (question) =>
        message(question, [record(types.a, addressBytes("127.0.0.1"), Buffer.from([0xc0, 0xff]))]),
      /^OutboundFailed/,
    ],
    ["refused.test", (question) => message(question, [], 0x8185), /^OutboundFailed/],
  ];
  for (const [name, answer, expected] of cases) {
    const { code, took, worked } = await attack(name, answer);
    expect(code, name).toMatch(expected);
    // Two tries of 100 and 200 ms; a loaded machine may add to it.
    expect(took, name).toBeLessThan(10_000);
    expect(worked, name).toBeLessThan(500);
  }
  expect(connections).toBe(0);
});
