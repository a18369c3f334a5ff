import { expect, test } from "vitest";
import { SandboxJoins } from "./sandbox-joins.ts";

const place = { userId: "ann", sandboxId: "s" };

function joinsOf(): { joins: SandboxJoins; records: Set<string>; leases: Set<unknown> } {
  const records = new Set(["s"]);
  const leases = new Set<unknown>();
  const joins = new SandboxJoins({
    get: async (_userId, id) => (records.has(id) ? ({ id } as never) : undefined),
    acquire: (_id, lease) => {
      leases.add(lease);
      return () => void leases.delete(lease);
    },
  });
  return { joins, records, leases };
}

test("a removal waits for those that join, also for those that came meanwhile, and then looks", async () => {
  const { joins, records, leases } = joinsOf();
  const [first, second] = await Promise.all([joins.join("ann", "s"), joins.join("ann", "s")]);
  let isUnused = true;
  const removed = joins.remove(
    "s",
    async () => isUnused,
    async () => records.delete("s"),
  );
  expect(leases.size).toBe(2);
  first();
  first();
  const third = await joins.join("ann", "s");
  second();
  await new Promise((resolve) => setImmediate(resolve));
  expect(records.has("s")).toBe(true);
  isUnused = false;
  third();
  expect(await removed).toBe(false);
  expect(leases.size).toBe(0);
  isUnused = true;
  expect(
    await joins.remove(
      "s",
      async () => isUnused,
      async () => records.delete("s"),
    ),
  ).toBe(true);
  await expect(joins.join("ann", "s")).rejects.toThrow("The sandbox s does not exist.");
  expect(leases.size).toBe(0);
});

test("nothing joins a sandbox that is being removed; a removal that fails opens it again", async () => {
  const { joins } = joinsOf();
  const { promise, reject } = Promise.withResolvers<void>();
  const removed = joins.remove(
    "s",
    async () => true,
    () => promise,
  );
  await new Promise((resolve) => setImmediate(resolve));
  expect(joins.isOpen("s")).toBe(false);
  await expect(joins.run(place, async () => {})).rejects.toThrow("does not exist");
  reject(new Error("disk full"));
  await expect(removed).rejects.toThrow("disk full");
  expect(await joins.run(place, async () => "stored")).toBe("stored");
});

test("a conversation that comes during the check of a removal joins a used sandbox, else gets an error", async () => {
  for (const isUnused of [false, true]) {
    const { joins, records, leases } = joinsOf();
    const { promise: looked, resolve: look } = Promise.withResolvers<void>();
    const removed = joins.remove(
      "s",
      async () => {
        await looked;
        return isUnused;
      },
      async () => records.delete("s"),
    );
    await new Promise((resolve) => setImmediate(resolve));
    const joined = joins.run(place, async () => "stored").catch((error: Error) => error.message);
    await new Promise((resolve) => setImmediate(resolve));
    look();
    expect(await removed).toBe(isUnused);
    expect(await joined).toBe(isUnused ? "The sandbox s does not exist." : "stored");
    expect(leases.size).toBe(0);
  }
});
