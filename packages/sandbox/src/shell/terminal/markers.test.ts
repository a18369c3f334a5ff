import { expect, test } from "vitest";
import { MarkerScanner } from "./markers.ts";

const nonce = "0123456789abcdef01234567";
const start = `${nonce}:S7:`;
const end = `${nonce}:E7:12:3:45:/tmp/a:b\nc:${nonce};/usr/bin/python3\r\n${nonce}=`;
const prompt = `${nonce}:P8:12:130::/tmp:${nonce}.`;

function scan(...chunks: string[]) {
  const scanner = new MarkerScanner(nonce);
  const parts = chunks.flatMap((chunk) => scanner.push(Buffer.from(chunk)));
  const text = parts.filter((part) => Buffer.isBuffer(part)).join("") + scanner.flush().toString();
  return { text, markers: parts.filter((part) => !Buffer.isBuffer(part)) };
}

test("markers are found wherever the output is split, and the text around them is complete", () => {
  const whole = `echo${start}out\r\nput${end}idle${prompt}rest`;
  for (let at = 0; at <= whole.length; at++) {
    const { text, markers } = scan(whole.slice(0, at), whole.slice(at));
    expect(text).toBe("echoout\r\nputidlerest");
    expect(markers).toEqual([
      { kind: "start", number: 7 },
      {
        kind: "end",
        number: 7,
        status: {
          shellPid: 12,
          exitCode: 3,
          jobPid: 45,
          workingDir: "/tmp/a:b\nc",
          python: "/usr/bin/python3",
        },
      },
      {
        kind: "end",
        number: 8,
        status: { shellPid: 12, exitCode: 130, jobPid: -1, workingDir: "/tmp", python: undefined },
      },
    ]);
  }
});

test("text that resembles markers is ordinary output", () => {
  for (const text of [
    nonce,
    `${nonce}:P8:$$:$?:`,
    `printf '%s:S%d:' ${nonce} 7`,
    `${nonce}:S`,
    `${nonce}:E1:x`,
    nonce.repeat(3),
  ]) {
    expect(scan(text)).toEqual({ text, markers: [] });
    expect(scan(`${text}\n`, "more").text).toBe(`${text}\nmore`);
  }
});
