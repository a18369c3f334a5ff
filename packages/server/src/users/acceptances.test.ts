import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { BehaviourPart } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestStore } from "../../test/support/store.ts";
import { StoredAcceptances } from "./acceptances.ts";

let stored: Awaited<ReturnType<typeof createTestStore>>;
let acceptances: StoredAcceptances;

beforeAll(async () => {
  stored = await createTestStore();
  acceptances = new StoredAcceptances({
    store: stored.store.behaviours,
    publicUrl: () => "https://x.example",
  });
});
afterAll(() => stored.close());

const hook = (text: string): BehaviourPart => ({ kind: "hook", source: ".openhands/hooks.json", text });
const found = (sandboxId: string, text: string, more = {}) => ({
  ...{ userId: "ann", sandboxId, workingDir: "/w", origin: "https://git.example/a/b" },
  parts: [hook(text)],
  ...more,
});
const sandbox = (id: string, snapshotId: string | null): SandboxRow => ({
  ...{ id, userId: "ann", specId: "host", status: "RUNNING", statusDetail: null, incarnation: "1" },
  ...{
    sessionKey: `key ${id}`,
    createdAt: 1,
    spec: { id: "host" },
    prepared: true,
    snapshotId,
    lastUsedAt: 1,
  },
});

test("a sandbox gets no secrets until all that was found in it is accepted", async () => {
  expect(await acceptances.withheld("ann", "s1")).toBeUndefined();
  expect(await acceptances.record(found("s1", "x", { parts: [] }))).toBeUndefined();
  const one = (await acceptances.record(found("s1", "one")))!;
  const two = (await acceptances.record(found("s1", "two", { workingDir: "/other" })))!;
  expect(await acceptances.withheld("ann", "s1")).toContain(`https://x.example/behaviours/${two.digest}`);
  await acceptances.accept("ann", two.digest);
  expect(await acceptances.withheld("ann", "s1")).toContain(one.digest);
  await acceptances.accept("ann", one.digest);
  expect(await acceptances.withheld("ann", "s1")).toBeUndefined();
  // The same in another sandbox is accepted, too.
  expect(await acceptances.record(found("s2", "one"))).toMatchObject({
    digest: one.digest,
    sandbox_ids: ["s2", "s1"],
  });
  expect(await acceptances.withheld("ann", "s2")).toBeUndefined();
  await acceptances.revoke("ann", one.digest);
  await acceptances.revoke("ann", one.digest);
  for (const id of ["s1", "s2"]) expect(await acceptances.withheld("ann", id)).toContain(one.digest);
});

test("an acceptance is for one user and one origin", async () => {
  const mine = (await acceptances.record(found("s3", "three")))!;
  await acceptances.accept("ann", mine.digest);
  const theirs = await acceptances.record(found("s4", "three", { userId: "bob" }));
  expect(theirs).toMatchObject({ digest: mine.digest, accepted_at: null });
  expect(await acceptances.withheld("bob", "s4")).toBeDefined();
  const copy = await acceptances.record(found("s5", "three", { origin: "https://git.example/evil/b" }));
  expect(copy!.digest).not.toBe(mine.digest);
  const nameless = await acceptances.record(found("s6", "three", { origin: undefined }));
  expect(nameless!.origin).toBe("sandbox s6");
  // The first origin of a folder stays: what runs in the sandbox may change the remote.
  const renamed = await acceptances.record(found("s5", "four"));
  expect(renamed!.origin).toBe("https://git.example/evil/b");
  await expect(acceptances.get("eve", mine.digest)).rejects.toThrow("no behaviour with this digest");
  await expect(acceptances.accept("eve", mine.digest)).rejects.toThrow("no behaviour with this digest");
});

test("what was found follows the files into snapshots, and ends with its sandbox", async () => {
  const { sandboxes, snapshots } = stored.store;
  await sandboxes.create(sandbox("s7", null));
  const { digest } = (await acceptances.record(found("s7", "five")))!;
  await snapshots.create({
    id: "snap-7",
    userId: "ann",
    sandboxId: "s7",
    spec: { id: "host" },
    createdAt: 1,
  });
  await sandboxes.remove("s7");
  expect(await acceptances.withheld("ann", "s7")).toBeUndefined();
  await sandboxes.create(sandbox("s8", "snap-7"));
  expect(await acceptances.withheld("ann", "s8")).toContain(digest);
  expect((await acceptances.get("ann", digest)).sandbox_ids).toEqual(["s8"]);
  await snapshots.remove("snap-7");
  await sandboxes.remove("s8");
  await expect(acceptances.get("ann", digest)).rejects.toThrow("no behaviour");
});

test("what is kept is bounded: behaviours of a sandbox, and acceptances of a user", async () => {
  for (let index = 0; index < 30; index++) await acceptances.record(found("s9", `text ${index}`));
  const all = await acceptances.list("ann", "s9");
  expect(all.filter(({ parts }) => parts.length > 0)).toHaveLength(10);
  // What was once found withholds the secrets until it is accepted, whatever is found later.
  for (const { digest, parts } of all) if (parts.length > 0) await acceptances.accept("ann", digest);
  expect(await acceptances.withheld("ann", "s9")).toBeDefined();
  const oldest = all.at(-1)!;
  await expect(acceptances.accept("ann", oldest.digest)).rejects.toThrow("use a new sandbox");
  await acceptances.record(found("s9", "text 0"));
  expect((await acceptances.accept("ann", oldest.digest)).parts).toEqual([hook("text 0")]);
  const long = (await acceptances.record(found("s10", "y".repeat(2_000_000))))!;
  expect(long.parts[0]!.text.length).toBeLessThan(1_048_700);
  await acceptances.accept("ann", long.digest);
  const { behaviours } = stored.store;
  for (const { digest } of (await acceptances.list("ann")).filter(({ accepted_at }) => accepted_at !== null))
    await acceptances.revoke("ann", digest);
  const row = { userId: "ann", origin: "o", parts: [], acceptedAt: 1 };
  await Promise.all(
    Array.from({ length: 500 }, (_, index) => behaviours.accept({ ...row, digest: String(index) }, 500)),
  );
  await expect(acceptances.accept("ann", long.digest)).rejects.toThrow("A user can accept 500 repositories");
});
