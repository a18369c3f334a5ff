import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { InvalidInput } from "./invalid-input.ts";
import { JsonReaderClient } from "./json-reader-client.ts";

test("long texts are parsed in order while other work runs, and wrong ones are refused as elsewhere", async () => {
  const reader = new JsonReaderClient();
  const text = "\n".repeat(4 * 2 ** 20);
  const ended: number[] = [];
  const parse = async (index: number, json: string) => {
    const value = await reader.parse(Buffer.from(json)).catch((error: unknown) => error);
    ended.push(index);
    return value;
  };
  const all = Promise.all([
    parse(0, JSON.stringify({ text })),
    parse(1, '{"a":'),
    parse(2, `{"__proto__":1}`),
    parse(3, '"\\u00e9é"'),
  ]);
  let rounds = 0;
  const over = all.then(() => false);
  while (await Promise.race([over, setImmediate(true)])) rounds++;
  const [long, cut, named, short] = await all;
  expect(long).toEqual({ text });
  expect(cut).toEqual(
    new InvalidInput([{ loc: ["body", 5], msg: "JSON decode error: malformed JSON", type: "json_invalid" }]),
  );
  expect(String(named)).toContain("the key __proto__ is not allowed");
  expect(short).toBe("éé");
  expect(ended).toEqual([0, 1, 2, 3]);
  expect(rounds).toBeGreaterThan(10);
});
