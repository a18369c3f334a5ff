import { expect, test } from "vitest";
import { createHostSpec } from "../specs/specs.ts";
import { UserImages } from "./user-images.ts";

const limits = { memoryBytes: 2 ** 30, pids: 100, cpus: 1, diskBytes: 2 ** 30 };
const withImage = (reference: string, id = reference) => ({
  ...createHostSpec(limits),
  id,
  root: { kind: "image" as const, reference },
});

test("images that a user chose are counted by digest until sandboxes and snapshots keep them no longer", () => {
  const users = new Map<string, string>();
  const kept = new Map<string, string>();
  const images = new UserImages({
    owner: (id) => users.get(id),
    specs: [{ id: "ours" }],
    max: 2,
    snapshots: {
      owners: () => [...kept.keys()].map((id) => ({ id, userId: "ann" })),
      get: (id) => ({
        id,
        userId: "ann",
        sandboxId: "s",
        createdAt: 0,
        spec: withImage(kept.get(id)!, "own"),
      }),
    },
  });
  const start = (id: string, reference: string, { userId = "ann", spec = reference } = {}) => {
    users.set(id, userId);
    images.admit({ id, userId }, withImage(reference, spec));
    images.admit({ id, userId }, withImage(`${reference}@1`, spec));
  };
  const refused = expect.objectContaining({
    code: "TooManySandboxes",
    message: expect.stringContaining("keep 2 images"),
  });
  start("a", "one");
  start("b", "two");
  start("b2", "two");
  expect(() => start("c", "three")).toThrow(refused);
  // The tag has moved on, which is known only after the fetch.
  images.admit({ id: "c", userId: "ann" }, withImage("two"));
  expect(() => images.admit({ id: "c", userId: "ann" }, withImage("two@2"))).toThrow(refused);
  start("d", "other", { userId: "ben" });
  start("e", "operator", { spec: "ours" });
  users.delete("a");
  start("c", "three");
  users.delete("b");
  users.delete("b2");
  kept.set("snapshot", "two@1");
  expect(() => start("f", "four")).toThrow(refused);
  start("g", "two");
  kept.clear();
  users.delete("g");
  start("f", "four");
});
