import { expect, test } from "vitest";
import { createHostSpec } from "../specs/specs.ts";
import { UserImages } from "./user-images.ts";

const limits = { memoryBytes: 2 ** 30, pids: 100, cpus: 1, diskBytes: 2 ** 30 };
const withImage = (reference: string, id = reference) => ({
  ...createHostSpec(limits),
  id,
  root: { kind: "image" as const, reference },
});

test("an image that a user chose counts by its digest while a sandbox or snapshot keeps it", async () => {
  const users = new Map<string, string>();
  const kept = new Map<string, string>();
  const images = new UserImages({
    owner: (id) => users.get(id),
    specs: [{ id: "ours" }],
    max: 2,
    snapshots: {
      owners: async () => [...kept.keys()].map((id) => ({ id, userId: "ann" })),
      get: async (id) => ({
        id,
        userId: "ann",
        sandboxId: "s",
        createdAt: 0,
        spec: withImage(kept.get(id)!, "own"),
      }),
    },
  });
  const start = async (id: string, reference: string, { userId = "ann", spec = reference } = {}) => {
    users.set(id, userId);
    await images.admit({ id, userId, createdAt: 0 }, withImage(reference, spec));
    await images.admit({ id, userId, createdAt: 0 }, withImage(`${reference}@1`, spec));
  };
  const refused = expect.objectContaining({
    code: "TooManySandboxes",
    message: expect.stringContaining("keep 2 images"),
  });
  await start("a", "one");
  await start("b", "two");
  await start("b2", "two");
  await expect(start("c", "three")).rejects.toThrow(refused);
  // The tag has moved on, which is known only after the fetch.
  await images.admit({ id: "c", userId: "ann", createdAt: 0 }, withImage("two"));
  await expect(images.admit({ id: "c", userId: "ann", createdAt: 0 }, withImage("two@2"))).rejects.toThrow(
    refused,
  );
  await start("d", "other", { userId: "ben" });
  await start("e", "operator", { spec: "ours" });
  users.delete("a");
  await start("c", "three");
  users.delete("b");
  users.delete("b2");
  kept.set("snapshot", "two@1");
  await expect(start("f", "four")).rejects.toThrow(refused);
  await start("g", "two");
  kept.clear();
  users.delete("g");
  await start("f", "four");
});

test("starts at the same time do not exceed the limit of images", async () => {
  const images = new UserImages({
    owner: () => "ann",
    specs: [],
    max: 2,
    snapshots: { owners: async () => [], get: async () => undefined },
  });
  const starts = ["one", "two", "three"].map((id) =>
    images.admit({ id, userId: "ann", createdAt: 0 }, withImage(id)),
  );
  const results = await Promise.allSettled(starts);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
});
