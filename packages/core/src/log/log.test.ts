import { expect, test } from "vitest";
import { SecretMask } from "../secrets/mask.ts";
import { createLogger } from "./log.ts";

function logged(write: (log: ReturnType<typeof createLogger>) => void): string {
  const lines: string[] = [];
  const mask = new SecretMask();
  mask.registerSecret('registered"secret');
  write(createLogger("info", mask, { write: (line) => void lines.push(line) }));
  return lines.join("");
}

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
