import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createTestStore } from "../../test/support/store.ts";
import type { Store } from "../store/store.ts";
import { StoredApiKeys } from "./api-keys.ts";
import { KeyCache } from "./key-cache.ts";
import { StoredLoginLinks } from "./login-links.ts";
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

/** A node of its own over the same database. */
const makeNode = () => new StoredLoginLinks(store.logins, new StoredApiKeys(store.apiKeys));

async function makeLink(): Promise<string> {
  const holder = await keys.authenticate(await keys.create("ann", "command line, process 7, place x"));
  return makeNode().create(holder!);
}

test("of many nodes that get a link at the same time, one logs in", async () => {
  const link = await makeLink();
  const found = await Promise.all(Array.from({ length: 20 }, () => makeNode().redeem(link)));
  expect(found.filter(Boolean)).toHaveLength(1);
  expect(await makeNode().redeem(link)).toBeUndefined();
});

test("a login by link belongs to a key that lasts, or else to the key of the link", async () => {
  const first = await makeNode().redeem(await makeLink());
  expect((await keys.list("ann")).map(({ id }) => id)).toContain(first!.keyId);
  await keys.create("bob", "first");
  await keys.add("ann", { name: "reader", expiresAt: null, readOnly: true });
  await keys.add("ann", { name: "short", expiresAt: Date.now() + 60_000, readOnly: false });
  const { row } = await keys.add("ann", { name: "mine", expiresAt: null, readOnly: false });
  expect(await makeNode().redeem(await makeLink())).toMatchObject({
    keyId: row.id,
    userId: "ann",
    readOnly: false,
  });
});

test("a link ends after ten minutes, with its key, and when there are many newer ones", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  const link = await makeLink();
  vi.advanceTimersByTime(10 * 60 * 1000);
  expect(await makeNode().redeem(link)).toBeUndefined();
  const other = await makeLink();
  for (const { id } of await keys.list("ann")) await keys.remove(id);
  expect(await makeNode().redeem(other)).toBeUndefined();
  const holder = (await keys.authenticate(await keys.create("ann", "one")))!;
  const links: string[] = [];
  for (let count = 0; count < 9; count++) {
    links.push(await makeNode().create(holder));
    vi.advanceTimersByTime(1);
  }
  const found = [];
  for (const each of links) found.push((await makeNode().redeem(each)) !== undefined);
  expect(found).toEqual([false, ...links.slice(1).map(() => true)]);
});

test("a link is no login", async () => {
  const logins = new StoredLogins(store.logins, new KeyCache(store.apiKeys));
  const link = await makeLink();
  expect(await logins.authenticate(link)).toBeUndefined();
  expect(await logins.authenticate(`link:${link}`)).toBeUndefined();
});
