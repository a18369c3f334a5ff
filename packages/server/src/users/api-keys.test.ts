import { hexId } from "@sandpiper/wire";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createTestStore } from "../../test/support/store.ts";
import type { Store } from "../store/store.ts";
import { StoredApiKeys } from "./api-keys.ts";
import { KeyCache } from "./key-cache.ts";
import { StoredLogins } from "./logins.ts";

let store: Store;
let close: () => Promise<void>;
let keys: StoredApiKeys;
beforeEach(async () => {
  ({ store, close } = await createTestStore());
  keys = new StoredApiKeys(store.apiKeys);
});
afterEach(() => {
  vi.useRealTimers();
  return close();
});

test("only the created key authenticates its user", async () => {
  const key = await keys.create("default", "cli");
  expect(key).toMatch(/^sp_[A-Za-z0-9_-]{43}$/);
  expect(keys.authenticate(key)).toMatchObject({ userId: "default", readOnly: false });
  expect(keys.authenticate(key)).toMatchObject({ userId: "default", readOnly: false });
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

test("a removed key stops working at once, and a second removal reports that it does not exist", async () => {
  const key = await keys.create("default", "cli");
  const other = await keys.create("default", "other");
  expect(keys.authenticate(key)).toBeDefined();
  const { id } = keys.list().find((row) => row.name === "cli")!;
  const removed = keys.remove(id);
  keys.authenticate(key);
  expect(await removed).toBe(true);
  expect(keys.authenticate(key)).toBeUndefined();
  expect(keys.authenticate(other)).toMatchObject({ userId: "default", readOnly: false });
  expect(await keys.remove(id)).toBe(false);
});

test("a key that is replaced by another of the same name stops working at once", async () => {
  const old = await keys.create("default", "cli");
  expect(keys.authenticate(old)).toBeDefined();
  const next = await keys.create("default", "cli");
  expect(keys.authenticate(old)).toBeUndefined();
  expect(keys.authenticate(next)).toMatchObject({ userId: "default", readOnly: false });
});

test("an adopted key works exactly as supplied, and adopting it again changes nothing", async () => {
  await keys.adopt("default", "environment", "chosen by the operator");
  const before = keys.list();
  await keys.adopt("default", "environment", "chosen by the operator");
  expect(keys.list()).toEqual(before);
  expect(keys.authenticate("chosen by the operator")).toMatchObject({ userId: "default", readOnly: false });
  await keys.adopt("default", "environment", "a new choice");
  expect(keys.authenticate("chosen by the operator")).toBeUndefined();
  expect(keys.authenticate("a new choice")).toMatchObject({ userId: "default", readOnly: false });
  expect(JSON.stringify(keys.list())).not.toContain("choice");
});

test("a key that another process revoked stops working within a second", async () => {
  let now = 0;
  const key = await keys.create("default", "cli");
  const remembering = new StoredApiKeys(store.apiKeys, new KeyCache(store.apiKeys, () => now));
  expect(remembering.authenticate(key)).toBeDefined();
  await keys.remove(keys.list().find((row) => row.name === "cli")!.id);
  now = 1_000;
  expect(remembering.authenticate(key)).toBeUndefined();
});

test("a new key needs an unused name, and may expire or be read-only", async () => {
  const soon = Date.now() + 60_000;
  const { key, row } = await keys.add("ann", { name: "reader", expiresAt: soon, readOnly: true });
  expect(keys.authenticate(key)).toEqual({
    userId: "ann",
    keyId: row.id,
    readOnly: true,
    keyExpiresAt: soon,
    source: `k${hexId(row.id)}`,
  });
  await expect(keys.add("ann", { name: "reader", expiresAt: null, readOnly: false })).rejects.toMatchObject({
    code: "KeyExists",
  });
  expect(keys.authenticate(key)).toBeDefined();
  await keys.add("bob", { name: "reader", expiresAt: null, readOnly: false });
  expect(keys.list("ann")).toEqual([{ ...row, lastUsedAt: expect.any(Number) }]);
  const past = await keys.add("ann", { name: "past", expiresAt: Date.now() - 1, readOnly: false });
  expect(keys.authenticate(past.key)).toBeUndefined();
});

test("a cached key still expires on time", async () => {
  const expiresAt = Date.now() + 60_000;
  const { key } = await keys.add("ann", { name: "short", expiresAt, readOnly: false });
  expect(keys.authenticate(key)).toBeDefined();
  vi.useFakeTimers({ toFake: ["Date"], now: expiresAt - 1 });
  expect(keys.authenticate(key)).toBeDefined();
  vi.setSystemTime(expiresAt);
  expect(keys.authenticate(key)).toBeUndefined();
});

test("the number of a user's keys is limited, also when many are created concurrently", async () => {
  const add = (index: number) => keys.add("ann", { name: `key ${index}`, expiresAt: null, readOnly: false });
  const made = await Promise.allSettled(Array.from({ length: 110 }, (_, index) => add(index)));
  const refused = made.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
  expect(refused.map(({ code }) => code)).toEqual(Array.from({ length: 10 }, () => "TooManyKeys"));
  expect(keys.list("ann")).toHaveLength(100);
  await keys.add("bob", { name: "one more", expiresAt: null, readOnly: false });
});

test("the last use is stored about once a minute", async () => {
  const key = await keys.create("default", "cli");
  expect(keys.list()[0]!.lastUsedAt).toBeNull();
  let now = 0;
  const remembering = new StoredApiKeys(store.apiKeys, new KeyCache(store.apiKeys, () => now));
  const before = Date.now();
  remembering.authenticate(key);
  await expect.poll(() => keys.list()[0]!.lastUsedAt).toBeGreaterThanOrEqual(before);
  await store.apiKeys.touch(keys.list()[0]!.id, 1);
  now = 59_000;
  remembering.authenticate(key);
  await keys.create("default", "other");
  expect(keys.list()[0]!.lastUsedAt).toBe(1);
  now = 61_000;
  remembering.authenticate(key);
  await expect.poll(() => keys.list()[0]!.lastUsedAt).toBeGreaterThanOrEqual(before);
});

test("a login authenticates like its key, expires by itself and with the key, and is not a key", async () => {
  const memory = new KeyCache(store.apiKeys);
  const shared = new StoredApiKeys(store.apiKeys, memory);
  const logins = new StoredLogins(store.logins, memory);
  const { key, row } = await shared.add("ann", { name: "browser", expiresAt: null, readOnly: true });
  const holder = shared.authenticate(key)!;
  const first = await logins.begin(holder);
  const second = await logins.begin(holder);
  expect(logins.authenticate(first.token)).toEqual({
    ...holder,
    source: expect.stringMatching(/^l[\w-]{43}$/),
  });
  expect(shared.authenticate(first.token)).toBeUndefined();
  expect(logins.authenticate(key)).toBeUndefined();
  await logins.end(first.token);
  expect(logins.authenticate(first.token)).toBeUndefined();
  expect(logins.authenticate(second.token)).toMatchObject({ keyId: row.id });
  await shared.remove(row.id);
  expect(logins.authenticate(second.token)).toBeUndefined();
});

test("a login expires no later than its key, and the oldest of too many is removed", async () => {
  const memory = new KeyCache(store.apiKeys);
  const logins = new StoredLogins(store.logins, memory);
  const soon = Date.now() + 60_000;
  const { row } = await keys.add("ann", { name: "browser", expiresAt: soon, readOnly: false });
  const holder = { userId: "ann", keyId: row.id, readOnly: false, keyExpiresAt: soon, source: "" };
  const first = await logins.begin(holder);
  expect(first.expiresAt).toBe(soon);
  const later = [];
  for (let index = 0; index < 50; index++) later.push(await logins.begin(holder));
  expect(logins.authenticate(later.at(-1)!.token)).toBeDefined();
  const alive = [first, ...later].filter(({ token }) => logins.authenticate(token));
  expect(alive).toHaveLength(50);
});
