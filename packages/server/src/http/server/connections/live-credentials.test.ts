import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { CredentialSources, KeyHolder } from "../../../users/api.ts";
import { LiveCredentials } from "./live-credentials.ts";

/** Look-ups by source, which wait for their answer. */
let lookUps: { source: string; answer: (holder: KeyHolder | undefined) => void; fail: () => void }[];
let changed: () => void;
let warnings: string[];
let live: LiveCredentials;
const holder = { userId: "default" } as KeyHolder;
const rest = () => new Promise((resolve) => setImmediate(resolve));

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  [lookUps, warnings] = [[], []];
  const sources: CredentialSources = {
    holder: (source) =>
      new Promise((resolve, reject) =>
        lookUps.push({ source, answer: resolve, fail: () => reject(new Error("no store")) }),
      ),
    onChange: (listener) => (changed = listener),
  };
  live = new LiveCredentials(sources, { warn: (_facts, text) => warnings.push(text) });
});
afterEach(() => {
  live.close();
  vi.useRealTimers();
});

const answerAll = async (holderOf: (source: string) => KeyHolder | undefined) => {
  for (const { source, answer } of lookUps.splice(0)) answer(holderOf(source));
  await rest();
};

test("what an ended source holds open is ended once, and the rest stays", async () => {
  const ended: string[] = [];
  for (const source of ["a", "b"]) live.hold(source, () => ended.push(source));
  const release = live.hold("a", () => ended.push("released"));
  release();
  vi.advanceTimersByTime(1_000);
  await answerAll((source) => (source === "a" ? undefined : holder));
  expect(ended).toEqual(["a"]);
  vi.advanceTimersByTime(1_000);
  expect(lookUps.map(({ source }) => source)).toEqual(["b"]);
});

test("a change during a check is looked at by another check", async () => {
  const ended: string[] = [];
  live.hold("a", () => ended.push("a"));
  vi.advanceTimersByTime(1_000);
  expect(lookUps).toHaveLength(1);
  // Revoked behind the read of the running check.
  changed();
  await answerAll(() => holder);
  expect(ended).toEqual([]);
  expect(lookUps).toHaveLength(1);
  await answerAll(() => undefined);
  expect(ended).toEqual(["a"]);
});

test("what is opened during a check ends with its source, too", async () => {
  const ended: string[] = [];
  live.hold("a", () => ended.push("first"));
  changed();
  live.hold("a", () => ended.push("second"));
  await answerAll(() => undefined);
  expect(ended).toEqual(["first", "second"]);
});

test("a check that fails ends nothing, and the next one looks again", async () => {
  const ended: string[] = [];
  live.hold("a", () => ended.push("a"));
  changed();
  lookUps.splice(0)[0]!.fail();
  await rest();
  expect([ended, warnings]).toEqual([[], ["keys of open connections could not be checked"]]);
  vi.advanceTimersByTime(1_000);
  await answerAll(() => undefined);
  expect(ended).toEqual(["a"]);
});
