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
  expect(await keys.authenticate(key)).toMatchObject({ userId: "default", readOnly: false });
  expect(await keys.authenticate(key)).toMatchObject({ userId: "default", readOnly: false });
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
    expect(await keys.authenticate(wrong)).toBeUndefined();
  }
});

test("a removed key stops working at once, and a second removal reports that it does not exist", async () => {
  const key = await keys.create("default", "cli");
  const other = await keys.create("default", "other");
  expect(await keys.authenticate(key)).toBeDefined();
  const { id } = (await keys.list()).find((row) => row.name === "cli")!;
  const removed = keys.remove(id);
  await keys.authenticate(key);
  expect(await removed).toBe(true);
  expect(await keys.authenticate(key)).toBeUndefined();
  expect(await keys.authenticate(other)).toMatchObject({ userId: "default", readOnly: false });
  expect(await keys.remove(id)).toBe(false);
});

test("a key that is replaced by another of the same name stops working at once", async () => {
  const old = await keys.create("default", "cli");
  expect(await keys.authenticate(old)).toBeDefined();
  const next = await keys.create("default", "cli");
  expect(await keys.authenticate(old)).toBeUndefined();
  expect(await keys.authenticate(next)).toMatchObject({ userId: "default", readOnly: false });
});

test("an adopted key works exactly as supplied, and adopting it again changes nothing", async () => {
  await keys.adopt("default", "environment", "chosen by the operator");
  const before = await keys.list();
  await keys.adopt("default", "environment", "chosen by the operator");
  expect(await keys.list()).toEqual(before);
  expect(await keys.authenticate("chosen by the operator")).toMatchObject({
    userId: "default",
    readOnly: false,
  });
  await keys.adopt("default", "environment", "a new choice");
  expect(await keys.authenticate("chosen by the operator")).toBeUndefined();
  expect(await keys.authenticate("a new choice")).toMatchObject({ userId: "default", readOnly: false });
  expect(JSON.stringify(await keys.list())).not.toContain("choice");
});

test("a key that another process revoked stops working within a second", async () => {
  let now = 0;
  const key = await keys.create("default", "cli");
  const remembering = new StoredApiKeys(store.apiKeys, new KeyCache(store.apiKeys, () => now));
  expect(await remembering.authenticate(key)).toBeDefined();
  await keys.remove((await keys.list()).find((row) => row.name === "cli")!.id);
  now = 1_000;
  expect(await remembering.authenticate(key)).toBeUndefined();
});

test("a new key needs an unused name, and may expire or be read-only", async () => {
  const soon = Date.now() + 60_000;
  const { key, row } = await keys.add("ann", { name: "reader", expiresAt: soon, readOnly: true });
  expect(await keys.authenticate(key)).toEqual({
    userId: "ann",
    keyId: row.id,
    readOnly: true,
    keyExpiresAt: soon,
    source: `k${hexId(row.id)}`,
  });
  await expect(keys.add("ann", { name: "reader", expiresAt: null, readOnly: false })).rejects.toMatchObject({
    code: "KeyExists",
  });
  expect(await keys.authenticate(key)).toBeDefined();
  await keys.add("bob", { name: "reader", expiresAt: null, readOnly: false });
  expect(await keys.list("ann")).toEqual([{ ...row, lastUsedAt: expect.any(Number) }]);
  const past = await keys.add("ann", { name: "past", expiresAt: Date.now() - 1, readOnly: false });
  expect(await keys.authenticate(past.key)).toBeUndefined();
});

test("a cached key still expires on time", async () => {
  const expiresAt = Date.now() + 60_000;
  const { key } = await keys.add("ann", { name: "short", expiresAt, readOnly: false });
  expect(await keys.authenticate(key)).toBeDefined();
  vi.useFakeTimers({ toFake: ["Date"], now: expiresAt - 1 });
  expect(await keys.authenticate(key)).toBeDefined();
  vi.setSystemTime(expiresAt);
  expect(await keys.authenticate(key)).toBeUndefined();
});

test("the number of a user's keys is limited, also when many are created concurrently", async () => {
  const add = (index: number) => keys.add("ann", { name: `key ${index}`, expiresAt: null, readOnly: false });
  const made = await Promise.allSettled(Array.from({ length: 110 }, (_, index) => add(index)));
  const refused = made.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
  expect(refused.map(({ code }) => code)).toEqual(Array.from({ length: 10 }, () => "TooManyKeys"));
  expect(await keys.list("ann")).toHaveLength(100);
  await keys.add("bob", { name: "one more", expiresAt: null, readOnly: false });
});

test("the last use is stored about once a minute", async () => {
  const key = await keys.create("default", "cli");
  expect((await keys.list())[0]!.lastUsedAt).toBeNull();
  let now = 0;
  const remembering = new StoredApiKeys(store.apiKeys, new KeyCache(store.apiKeys, () => now));
  const before = Date.now();
  await remembering.authenticate(key);
  await expect.poll(async () => (await keys.list())[0]!.lastUsedAt).toBeGreaterThanOrEqual(before);
  await store.apiKeys.touch((await keys.list())[0]!.id, 1);
  now = 59_000;
  await remembering.authenticate(key);
  await keys.create("default", "other");
  expect((await keys.list())[0]!.lastUsedAt).toBe(1);
  now = 61_000;
  await remembering.authenticate(key);
  await expect.poll(async () => (await keys.list())[0]!.lastUsedAt).toBeGreaterThanOrEqual(before);
});

test("a login authenticates like its key, expires by itself and with the key, and is not a key", async () => {
  const memory = new KeyCache(store.apiKeys);
  const shared = new StoredApiKeys(store.apiKeys, memory);
  const logins = new StoredLogins(store.logins, memory);
  const { key, row } = await shared.add("ann", { name: "browser", expiresAt: null, readOnly: true });
  const holder = (await shared.authenticate(key))!;
  const first = await logins.begin(holder);
  const second = await logins.begin(holder);
  expect(await logins.authenticate(first.token)).toEqual({
    ...holder,
    source: expect.stringMatching(/^l[\w-]{43}$/),
  });
  expect(await shared.authenticate(first.token)).toBeUndefined();
  expect(await logins.authenticate(key)).toBeUndefined();
  await logins.end(first.token);
  expect(await logins.authenticate(first.token)).toBeUndefined();
  expect(await logins.authenticate(second.token)).toMatchObject({ keyId: row.id });
  await shared.remove(row.id);
  expect(await logins.authenticate(second.token)).toBeUndefined();
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
  expect(await logins.authenticate(later.at(-1)!.token)).toBeDefined();
  const holders = await Promise.all([first, ...later].map(({ token }) => logins.authenticate(token)));
  expect(holders.filter(Boolean)).toHaveLength(50);
});

/** A store whose next look-ups wait until the test releases them. */
function holdLookUps() {
  const held = Promise.withResolvers<void>();
  let asked = 0;
  const find = async (key: string) => {
    asked++;
    const row = await store.apiKeys.find(key);
    await held.promise;
    return row;
  };
  const { create, get, list, touch, remove } = store.apiKeys;
  const bound = Object.fromEntries(
    Object.entries({ create, get, list, touch, remove }).map(([name, method]) => [
      name,
      (method as (...given: unknown[]) => unknown).bind(store.apiKeys),
    ]),
  );
  const slow = new StoredApiKeys({ ...bound, find } as unknown as Store["apiKeys"]);
  return { slow, letGo: held.resolve, asked: () => asked };
}

test("a key that is revoked while it is looked up does not stay valid", async () => {
  const key = await keys.create("default", "cli");
  const { slow, letGo, asked } = holdLookUps();
  const early = slow.authenticate(key);
  await expect.poll(asked).toBe(1);
  await slow.remove((await keys.list())[0]!.id);
  const late = slow.authenticate(key);
  letGo();
  // The first request came before the revocation.
  expect(await early).toBeDefined();
  expect(await late).toBeUndefined();
  expect(await slow.authenticate(key)).toBeUndefined();
});

test("concurrent requests with a key cost one look-up", async () => {
  const key = await keys.create("default", "cli");
  const { slow, letGo, asked } = holdLookUps();
  const requests = Array.from({ length: 50 }, () => slow.authenticate(key));
  letGo();
  const holders = await Promise.all(requests);
  expect(new Set(holders).size).toBe(1);
  expect(await slow.authenticate(key)).toBe(holders[0]);
  expect(asked()).toBe(1);
});
