import { appendFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DecisionLog } from "./decision-log.ts";

let dir: string;
let file: string;
const warnings: object[] = [];
const logger = { debug() {}, info() {}, error() {}, warn: (facts: object) => void warnings.push(facts) };
const decision = {
  ...{
    at: 1,
    method: "GET",
    host: "a.test",
    port: 80,
    address: null,
    decision: "refused" as const,
    reason: "x".repeat(400),
  },
  ...{ bytesUp: 0, bytesDown: 0, durationMs: 0 },
};

beforeEach(() => {
  dir = mkdtempSync("/tmp/sandpiper-test-");
  file = join(dir, "one.jsonl");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test("a log keeps the newest decisions within 2 MB, readable only for the server", async () => {
  const log = new DecisionLog(file, logger);
  for (let round = 0; round < 20; round++) {
    for (let number = 0; number < 1_000; number++) log.add(decision);
    await log.flush();
  }
  const sizes = readdirSync(dir).map((name) => statSync(join(dir, name)));
  expect(sizes.map(({ mode }) => mode & 0o777)).toEqual([0o600, 0o600]);
  expect(sizes.reduce((sum, { size }) => sum + size, 0)).toBeLessThanOrEqual(2 * 2 ** 20);
  const newest = await log.read({ limit: 3 });
  expect(newest.map(({ seq }) => seq)).toEqual([20_000, 19_999, 19_998]);
  const all = await log.read({ limit: 100_000, before: 19_999 });
  expect(all.map(({ seq }) => seq)).toEqual(all.map((_one, index) => 19_998 - index));
  expect(all.length).toBeGreaterThan(1_900);
});

test("decisions that come faster than they can be written show as a gap", async () => {
  const log = new DecisionLog(file, logger);
  await log.ready();
  for (let number = 0; number < 5_000; number++) log.add(decision);
  await log.flush();
  log.add(decision);
  expect((await log.read({ limit: 2 })).map(({ seq }) => seq)).toEqual([5_001, 2_000]);
});

test("a new process continues after the last complete line", async () => {
  const first = new DecisionLog(file, logger);
  first.add(decision);
  first.add(decision);
  await first.flush();
  appendFileSync(file, '{"seq":3,"at":1,"me');
  const second = new DecisionLog(file, logger);
  await second.ready();
  second.add(decision);
  expect((await second.read({ limit: 10 })).map(({ seq }) => seq)).toEqual([3, 2, 1]);
});

test("decisions that cannot be written are dropped with a warning; a removed log stays removed", async () => {
  mkdirSync(`${file}.old`);
  mkdirSync(file);
  const log = new DecisionLog(join(dir, "missing", "one.jsonl"), logger);
  log.add(decision);
  await log.flush();
  expect(warnings).toMatchObject([{ lost: 1 }]);
  const removed = new DecisionLog(join(dir, "two.jsonl"), logger);
  removed.add(decision);
  await removed.flush();
  await removed.remove();
  removed.add(decision);
  await removed.flush();
  expect(readdirSync(dir)).not.toContain("two.jsonl");
});
