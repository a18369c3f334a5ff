import { expect, test } from "vitest";
import { UserDisk } from "./user-disk.ts";

const mb = 2 ** 20;

test("the files of all sandboxes of a user count together, hibernated and new ones included", async () => {
  const states = new Map(
    ["ann-1", "ann-2", "bob-1"].map((id) => [id, { id, userId: id.slice(0, 3), status: "PAUSED" as const }]),
  );
  const sizes: Record<string, number> = { "ann-1": 60 * mb, "ann-2": 30 * mb, "bob-1": 10 * mb };
  const disk = new UserDisk({ states, measure: async (id) => sizes[id]!, maxBytes: 100 * mb });
  await disk.tick();
  disk.require("ann");
  disk.note("ann-2", 50 * mb);
  expect(() => disk.require("ann")).toThrow("Your sandboxes take 110.0 MB of the 100.0 MB that they may");
  disk.require("bob");
  states.delete("ann-1");
  disk.require("ann");
});

test("without a limit nothing is measured", async () => {
  const states = new Map([["a", { id: "a", userId: "ann", status: "RUNNING" as const }]]);
  const disk = new UserDisk({ states, measure: () => Promise.reject(new Error("measured")), maxBytes: 0 });
  await disk.tick();
  disk.note("a", 2 ** 40);
  disk.require("ann");
});
