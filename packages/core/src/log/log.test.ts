import { execFileSync } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { SecretMask } from "../secrets/mask.ts";
import { LineStream } from "./line-stream.ts";
import { createLogger, type LogLevel } from "./log.ts";

afterEach(() => void vi.useRealTimers());

function logged(write: (log: ReturnType<typeof createLogger>) => void, level: LogLevel = "info"): string {
  const lines: string[] = [];
  const mask = new SecretMask();
  mask.registerSecret('registered"secret');
  write(createLogger(level, mask, { write: (line) => void lines.push(line) }));
  return lines.join("");
}

interface Line {
  level: number;
  msg: string;
  leftOut?: number;
}

const parse = (text: string): Line[] =>
  text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

test("fields with the names of secrets are censored at every usual depth", () => {
  const text = logged((log) => {
    log.info({ apiKey: "leak-1", user: { llm_api_key: "leak-2", name: "ann" } }, "x");
    log.info(
      {
        req: {
          headers: {
            "x-session-api-key": "leak-3",
            authorization: "leak-4",
            cookie: "leak-5",
            accept: "json",
          },
        },
      },
      "x",
    );
  });
  expect(text).not.toMatch(/leak-/);
  expect(text).toContain('"name":"ann"');
  expect(text).toContain('"accept":"json"');
});

test("a registered secret does not appear in messages, fields, or errors and their causes", () => {
  const secret = 'registered"secret';
  const text = logged((log) => {
    log.info(`message with ${secret}`);
    log.info({ note: secret, url: `http://x/?k=${encodeURIComponent(secret)}` }, "fields");
    log.error({ err: new Error(`failed with ${secret}`, { cause: new Error(secret) }) }, "error");
  });
  expect(text).not.toMatch(/registered/);
  expect(
    text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).msg),
  ).toEqual(["message with **********", "fields", "error"]);
});

test("a minute has at most 20 lines that are alike and 500 in all; one line counts the others", () => {
  vi.useFakeTimers();
  const lines = parse(
    logged((log) => {
      for (let index = 0; index < 1_000; index++) log.info({ index }, "a request was refused");
      for (let index = 0; index < 1_000; index++) log.warn(`a text of a stranger: ${index}`);
      vi.advanceTimersByTime(60_000);
      log.info("another minute");
      vi.advanceTimersByTime(600_000);
    }),
  );
  expect(lines.filter(({ msg }) => msg === "a request was refused")).toHaveLength(20);
  expect(lines).toHaveLength(502);
  expect(lines.at(-2)).toMatchObject({ leftOut: 1_500, msg: "Log lines of the last minute were left out" });
  expect(lines.at(-1)!.msg).toBe("another minute");
});

test("errors of the server are not lost among the lines that strangers cause", () => {
  vi.useFakeTimers();
  const lines = parse(
    logged((log) => {
      for (let index = 0; index < 1_000; index++) log.warn(`a text of a stranger: ${index}`);
      for (let index = 0; index < 100; index++) log.error({ err: new Error("often") }, "request failed");
      log.error({ err: new Error("rare") }, "request failed");
      for (let index = 0; index < 1_000; index++) log.error(`an error ${index}`);
      log.fatal("the end");
    }),
  );
  const errors = lines.filter(({ level }) => level === 50);
  expect(errors).toHaveLength(500);
  expect(errors.map((line) => JSON.stringify(line)).filter((text) => text.includes('"rare"'))).toHaveLength(
    1,
  );
  expect(lines.at(-1)!.msg).toBe("the end");
});

test("a debug log has 2,000 lines that are alike and 10,000 in all in a minute", () => {
  vi.useFakeTimers();
  const lines = parse(
    logged((log) => {
      for (let index = 0; index < 12_000; index++) log.debug("request");
      for (let index = 0; index < 12_000; index++) log.debug(`request ${index}`);
    }, "debug"),
  );
  expect(lines.filter(({ msg }) => msg === "request")).toHaveLength(2_000);
  expect(lines).toHaveLength(10_000);
});

test("a long line is cut, stays JSON, and shows no secret where it is cut", () => {
  const secret = 'registered"secret';
  const texts = [
    logged((log) => log.warn({ url: `${"x".repeat(1_990)}${secret}${"y".repeat(100_000)}` }, "long")),
    logged((log) => log.warn("long ".repeat(100_000))),
    logged((log) => log.warn({ list: Array.from({ length: 5_000 }, () => "x".repeat(5_000)) }, "long")),
    logged((log) =>
      log.warn({ deep: JSON.parse(`${"[".repeat(900)}"${"x".repeat(20_000)}"${"]".repeat(900)}`) }, "long"),
    ),
  ];
  for (const text of texts) {
    expect(text.length).toBeLessThan(17_000);
    expect(text).not.toMatch(/registered/);
    expect(parse(text)[0]).toMatchObject({ level: 40, msg: expect.stringMatching(/^long/) });
  }
});

test("lines that a full disk does not take are lost and counted, and later ones are whole lines", () => {
  const folder = mkdtempSync(join(tmpdir(), "sandpiper-log-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=16k", "sandpiper-test", folder]);
  try {
    const [file, ballast] = [join(folder, "log"), join(folder, "ballast")];
    const log = createLogger("info", new SecretMask(), new LineStream(openSync(file, "a")));
    const large = "x".repeat(1_500);
    log.info("first");
    writeFileSync(ballast, Buffer.alloc(8 << 10));
    for (let count = 0; count < 10; count++) log.info(large);
    rmSync(ballast);
    log.info("after");
    const lines = readFileSync(file, "utf8").trimEnd().split("\n");
    expect(JSON.parse(lines[0]!).msg).toBe("first");
    expect(lines.slice(-2).map((line) => JSON.parse(line))).toMatchObject([
      {
        level: 40,
        reason: "ENOSPC",
        msg: expect.stringMatching(/^[2-9] lines of the log could not be written$/),
      },
      { level: 30, msg: "after" },
    ]);
  } finally {
    execFileSync("umount", ["--lazy", folder]);
    rmSync(folder, { recursive: true });
  }
});

test("a device that takes nothing is no error", () => {
  const log = createLogger("info", new SecretMask(), new LineStream(openSync("/dev/full", "w")));
  expect(() => log.error({ err: new Error("why") }, "lost")).not.toThrow();
});
