import { afterEach, beforeEach, expect, test } from "vitest";
import type { Store } from "../store/store.ts";
import { createTestStore } from "../store/testing.ts";
import { StoredApiKeys } from "./api-keys.ts";

let store: Store;
let close: () => Promise<void>;
let keys: StoredApiKeys;
beforeEach(async () => {
  ({ store, close } = await createTestStore());
  keys = new StoredApiKeys(store.apiKeys);
});
afterEach(() => close());

test("a made key opens its user's account and no other text does", async () => {
  const key = await keys.create("default", "cli");
  expect(key).toMatch(/^sp_[A-Za-z0-9_-]{43}$/);
  expect(keys.authenticate(key)).toEqual({ userId: "default" });
  expect(keys.authenticate(key)).toEqual({ userId: "default" });
  for (const wrong of [
    "",
    "sp_",
    key.slice(0, -1),
    `${key}x`,
    key.toUpperCase(),
    ` ${key}`,
    "x".repeat(100_000),
    "\0",
    "\ud800",
  ]) {
    expect(keys.authenticate(wrong)).toBeUndefined();
  }
});

test("a removed key stops working at once, a second removal says that there is none", async () => {
  const key = await keys.create("default", "cli");
  const other = await keys.create("default", "other");
  expect(keys.authenticate(key)).toBeDefined();
  const { id } = keys.list().find((row) => row.name === "cli")!;
  const removed = keys.remove(id);
  keys.authenticate(key);
  expect(await removed).toBe(true);
  expect(keys.authenticate(key)).toBeUndefined();
  expect(keys.authenticate(other)).toEqual({ userId: "default" });
  expect(await keys.remove(id)).toBe(false);
});

test("a key that was replaced by one of the same name stops working at once", async () => {
  const old = await keys.create("default", "cli");
  expect(keys.authenticate(old)).toBeDefined();
  const next = await keys.create("default", "cli");
  expect(keys.authenticate(old)).toBeUndefined();
  expect(keys.authenticate(next)).toEqual({ userId: "default" });
});

test("an adopted key works exactly as given, and adopting it again changes nothing", async () => {
  await keys.adopt("default", "environment", "chosen by the operator");
  const before = keys.list();
  await keys.adopt("default", "environment", "chosen by the operator");
  expect(keys.list()).toEqual(before);
  expect(keys.authenticate("chosen by the operator")).toEqual({ userId: "default" });
  await keys.adopt("default", "environment", "a new choice");
  expect(keys.authenticate("chosen by the operator")).toBeUndefined();
  expect(keys.authenticate("a new choice")).toEqual({ userId: "default" });
  expect(JSON.stringify(keys.list())).not.toContain("choice");
});

test("a key that another process revoked stops working within a second", async () => {
  let now = 0;
  const key = await keys.create("default", "cli");
  const remembering = new StoredApiKeys(store.apiKeys, () => now);
  expect(remembering.authenticate(key)).toBeDefined();
  await keys.remove(keys.list().find((row) => row.name === "cli")!.id);
  now = 1_000;
  expect(remembering.authenticate(key)).toBeUndefined();
});
