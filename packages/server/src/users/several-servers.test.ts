import { afterAll, beforeAll, expect, test } from "vitest";
import { postgresEngine } from "../../test/store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../../test/support/postgres.ts";
import { startPostgresProxy } from "../../test/support/postgres-proxy.ts";
import type { Store } from "../store/store.ts";
import { StoredApiKeys } from "./api-keys.ts";
import { StoredSecrets } from "./secrets.ts";
import { StoredSettings } from "./settings/settings.ts";

/** Several servers on one database change the data of the same users. */

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());
const engine = postgresEngine(() => server);

const secretsOf = (store: Store) =>
  new StoredSecrets({
    users: store.userSecrets,
    conversations: store.conversationSecrets,
    mask: { registerSecret() {} },
  });

test("two servers that change one user's settings and secrets at the same time lose no change", async () => {
  const { place, remove } = await engine.newPlace();
  const stores = await Promise.all([engine.openStore(place), engine.openStore(place)]);
  const conversation = { userId: "ann", conversationId: "of-ann", sandboxId: "s" };
  const rounds = Array.from({ length: 12 }, (_, index) => index);
  await Promise.all(
    stores.flatMap((store, at) => {
      const settings = new StoredSettings(store.settings);
      const secrets = secretsOf(store);
      return rounds.flatMap((round) => [
        settings.profiles.save("ann", `profile-${at}-${round}`, { llm: { model: `demo/${round}` } }),
        secrets.put("ann", { name: `S_${at}_${round}`, value: "the value" }, { replace: false }),
        secrets.putConversation(conversation, { [`C_${at}_${round}`]: "the value" }),
      ]);
    }),
  );
  const names = (prefix: string) =>
    [0, 1].flatMap((at) => rounds.map((round) => `${prefix}${at}_${round}`)).sort();
  for (const store of stores) {
    const { profiles } = await new StoredSettings(store.settings).profiles.list("ann");
    expect(profiles.map(({ name }) => name.replaceAll("-", "_")).sort()).toEqual(names("profile_"));
    const secrets = secretsOf(store);
    expect((await secrets.list("ann")).map(({ name }) => name).sort()).toEqual(names("S_"));
    const row = await store.conversationSecrets.get("of-ann");
    expect(Object.keys(row!.values).sort()).toEqual(names("C_"));
  }
  for (const store of stores) await store.close();
  await remove();
});

test("a key that one server revokes is refused by another one within two seconds without notifications", async () => {
  const { place, remove } = await engine.newPlace();
  const proxy = await startPostgresProxy(server.port);
  proxy.dropsNotifications = true;
  const [near, far] = await Promise.all([engine.openStore(place), engine.openStore(proxy.url(place))]);
  const [own, other] = [new StoredApiKeys(near.apiKeys), new StoredApiKeys(far.apiKeys)];
  const { key, row } = await own.add("ann", { name: "laptop", expiresAt: null, readOnly: false });
  expect(await other.authenticate(key)).toMatchObject({ userId: "ann" });
  await own.remove(row.id);
  const revokedAt = performance.now();
  await expect.poll(() => other.authenticate(key), { timeout: 2_000 }).toBeUndefined();
  expect(performance.now() - revokedAt).toBeLessThan(2_000);
  for (const store of [near, far]) await store.close();
  await proxy.close();
  await remove();
});

test("two servers that add at the same time keep to the limits of a user", async () => {
  const { place, remove } = await engine.newPlace();
  const stores = await Promise.all([engine.openStore(place), engine.openStore(place)]);
  const rounds = Array.from({ length: 80 }, (_, index) => index);
  const results = await Promise.allSettled(
    stores.flatMap((store, at) => {
      const keys = new StoredApiKeys(store.apiKeys);
      return rounds.map((round) =>
        keys.add("ann", { name: `key ${at} ${round}`, expiresAt: null, readOnly: false }),
      );
    }),
  );
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(100);
  expect(await stores[0]!.apiKeys.list("ann")).toHaveLength(100);
  const refused = results.find((result) => result.status === "rejected");
  expect(refused?.reason).toMatchObject({ code: "TooManyKeys" });
  for (const store of stores) await store.close();
  await remove();
});
