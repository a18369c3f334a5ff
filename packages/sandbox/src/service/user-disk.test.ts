import { expect, test } from "vitest";
import { UserDisk } from "./user-disk.ts";

const mb = 2 ** 20;
const none = { owners: async () => [], measure: async () => 0 };

test("the files of all sandboxes of a user count together, hibernated and new ones included", async () => {
  const states = new Map(
    ["ann-1", "ann-2", "bob-1"].map((id) => [id, { id, userId: id.slice(0, 3), status: "PAUSED" as const }]),
  );
  const sizes: Record<string, number> = { "ann-1": 60 * mb, "ann-2": 30 * mb, "bob-1": 10 * mb };
  const disk = new UserDisk({
    states,
    measure: async (id) => sizes[id]!,
    snapshots: none,
    maxBytes: 100 * mb,
  });
  await disk.tick();
  disk.require("ann");
  disk.note("ann-2", 50 * mb);
  expect(() => disk.require("ann")).toThrow(
    "Your sandboxes and snapshots take 110.0 MB of the 100.0 MB that they may",
  );
  disk.require("bob");
  states.delete("ann-1");
  disk.require("ann");
});

test("without a limit nothing is measured", async () => {
  const states = new Map([["a", { id: "a", userId: "ann", status: "RUNNING" as const }]]);
  const measure = () => Promise.reject(new Error("measured"));
  const disk = new UserDisk({ states, measure, snapshots: { owners: async () => [], measure }, maxBytes: 0 });
  await disk.tick();
  disk.note("a", 2 ** 40);
  disk.require("ann");
});

test("snapshots count, also those of deleted sandboxes, and are measured only when they change", async () => {
  const states = new Map([["ann-1", { id: "ann-1", userId: "ann", status: "RUNNING" as const }]]);
  const owned = [{ id: "snap-1", userId: "ann" }];
  const asked: unknown[] = [];
  const snapshots = {
    owners: async () => [...owned],
    measure: async (...ids: unknown[]) => {
      asked.push(ids);
      return states.size > 0 ? 10 * mb : 70 * mb;
    },
  };
  const disk = new UserDisk({ states, measure: async () => 60 * mb, snapshots, maxBytes: 100 * mb });
  await disk.tick();
  await disk.tick();
  disk.note("ann-1", 95 * mb);
  expect(() => disk.require("ann")).toThrow(/take 105\.0 MB of/);
  states.clear();
  await disk.tick();
  expect(asked).toEqual([
    [["snap-1"], ["ann-1"]],
    [["snap-1"], []],
  ]);
  disk.require("ann");
  owned.push({ id: "snap-2", userId: "ann" });
  await disk.tick();
  expect(asked).toHaveLength(3);
  owned.length = 0;
  await disk.tick();
  expect(disk.findExcess("ann")).toBeUndefined();
});
