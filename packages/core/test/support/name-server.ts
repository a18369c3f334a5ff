import { createSocket, type RemoteInfo } from "node:dgram";
import { once } from "node:events";
import { addressBytes } from "../../src/outbound/addresses.ts";

const types = { a: 1, aaaa: 28 };

/**
 * A real name server on loopback. `addressesOf` is asked once for each question, of which a lookup
 * has two, for A and AAAA.
 */
export async function startNameServer(
  addressesOf: (name: string) => string[],
): Promise<{ address: string; close(): void }> {
  const udp = createSocket("udp4").on("message", (question: Buffer, { port }: RemoteInfo) => {
    udp.send(answer(question, addressesOf), port, "127.0.0.1", () => {});
  });
  udp.bind(0, "127.0.0.1");
  await once(udp, "listening");
  return { address: `127.0.0.1:${udp.address().port}`, close: () => udp.close() };
}

function answer(question: Buffer, addressesOf: (name: string) => string[]): Buffer {
  const labels: string[] = [];
  let at = 12;
  for (; question[at] !== 0; at += question[at]! + 1)
    labels.push(question.toString("latin1", at + 1, at + 1 + question[at]!).toLowerCase());
  const type = question.readUInt16BE(at + 1);
  const records = addressesOf(labels.join("."))
    .filter((address) => type === (address.includes(":") ? types.aaaa : types.a))
    .map((address) => {
      const data = addressBytes(address);
      // The name of the question, the type, the class IN, no time to live.
      const head = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length]);
      return Buffer.concat([head, data]);
    });
  const head = Buffer.from([0, 0, 0x81, 0x80, 0, 1, 0, records.length, 0, 0, 0, 0]);
  question.copy(head, 0, 0, 2);
  return Buffer.concat([head, question.subarray(12, at + 5), ...records]);
}
