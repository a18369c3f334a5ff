import { Duplex } from "node:stream";
import { connect } from "node:tls";
import fc from "fast-check";
import { expect, test } from "vitest";
import { OpeningReader, parseOpening } from "./client-hello.ts";

/** The greeting that Node's TLS sends. */
function greeting(servername: string): Promise<Buffer> {
  return new Promise((resolve) => {
    const wire = new Duplex({ read() {}, write: (bytes: Buffer) => resolve(Buffer.from(bytes)) });
    connect({ socket: wire, servername }).on("error", () => {});
  });
}

test("a ClientHello yields its server name, however it is split into chunks and records", async () => {
  const hello = await greeting("Some.Name.test");
  for (let length = 0; length < hello.length; length++)
    expect(parseOpening(hello.subarray(0, length))).toEqual({ kind: "more" });
  expect(parseOpening(Buffer.concat([hello, Buffer.from("more")]))).toEqual({
    kind: "tls",
    serverName: "some.name.test",
  });
  expect(parseOpening(await greeting(""))).toEqual({ kind: "tls", serverName: null });
  const body = hello.subarray(5);
  const records = [body.subarray(0, 1), body.subarray(1, 7), body.subarray(7)].flatMap((part) => [
    Buffer.of(22, 3, 1, part.length >> 8, part.length & 255),
    part,
  ]);
  expect(parseOpening(Buffer.concat(records))).toEqual({ kind: "tls", serverName: "some.name.test" });
});

test("a ClientHello in thousands of records and pieces of one byte is read once", async () => {
  const body = (await greeting("a.test")).subarray(5);
  const records = Buffer.concat([...body].map((byte) => Buffer.of(22, 3, 1, 0, 1, byte)));
  const reader = new OpeningReader();
  const openings = [...records].map((byte) => reader.push(Buffer.of(byte)).kind);
  expect(openings.indexOf("tls")).toBe(records.length - 1);
  const endless = Buffer.concat([
    Buffer.of(22, 3, 1, 0, 4, 1, 0, 0x3f, 0xff),
    Buffer.alloc(40_000, records.subarray(0, 6)),
  ]);
  const began = process.cpuUsage();
  for (let at = 0; at < endless.length; at++) reader.push(endless.subarray(at, at + 1));
  expect(new OpeningReader().push(endless).kind).toBe("other");
  // A parser that begins anew with each piece took minutes.
  expect(process.cpuUsage(began).user / 1000).toBeLessThan(2_000);
});

test("other bytes and a malformed ClientHello are `other`", async () => {
  const hello = await greeting("a.test");
  expect(parseOpening(Buffer.from("GET / HTTP/1.1\r\n"))).toEqual({ kind: "other" });
  expect(parseOpening(Buffer.from("SSH-2.0-x"))).toEqual({ kind: "other" });
  expect(parseOpening(Buffer.of(22, 3, 1, 255, 255, 1))).toEqual({ kind: "other" });
  fc.assert(
    fc.property(fc.nat(hello.length - 1), fc.nat(255), (at, value) => {
      const broken = Buffer.from(hello);
      broken[at] = value;
      const opening = parseOpening(broken);
      return ["more", "other", "tls"].includes(opening.kind);
    }),
    { numRuns: 3_000 },
  );
});
