import { readFile } from "@sandpiper/sandbox/files/files";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ServiceBench, sh } from "../support/sandbox-service.ts";

const bench = new ServiceBench();
beforeAll(() => bench.open());
afterAll(() => bench.end());

test("an opened snapshot shows its files, is not listed, has no network, and is reaped after a crash", async () => {
  let service = await bench.serve();
  const { id } = await service.create("me");
  const sandbox = await service.running(id);
  await sh(sandbox, "echo then > /workspace/file");
  const snapshot = await service.snapshots.create("me", id);
  await sh(await service.running(id), "echo now > /workspace/file");

  const opened = await service.snapshots.open("me", snapshot.id);
  expect(await readFile(opened.files, "/workspace/file")).toEqual({
    kind: "file",
    content: Buffer.from("then\n"),
  });
  expect((await service.search("me", { limit: 10 })).items.map((row) => row.id)).toEqual([id]);
  expect(await bench.driver.list()).toHaveLength(2);
  // The reaper does not take it for an orphan while it is open.
  await service.reaper.reap();
  expect(await readFile(opened.files, "/workspace/file")).toMatchObject({ kind: "file" });
  await opened.close();
  await opened.close();
  expect((await bench.driver.list()).map((one) => one.id)).toEqual([id]);

  // A reader that holds it open may outlive the snapshot.
  const held = await service.snapshots.open("me", snapshot.id);
  await service.snapshots.remove("me", snapshot.id);
  expect(await readFile(held.files, "/workspace/file")).toMatchObject({ kind: "file" });
  await held.close();
  expect(await bench.driver.snapshots()).toEqual([]);

  await expect(service.snapshots.open("me", snapshot.id)).rejects.toMatchObject({ code: "SnapshotNotFound" });
  const last = await service.snapshots.create("me", id);
  await expect(service.snapshots.open("other", last.id)).rejects.toMatchObject({ code: "SnapshotNotFound" });
  // A user has a limited number open at a time; further ones wait.
  const four = await Promise.all([1, 2, 3, 4].map(() => service.snapshots.open("me", last.id)));
  const fifth = service.snapshots.open("me", last.id);
  expect(await bench.driver.list()).toHaveLength(5);
  for (const one of four) await one.close();
  await fifth;
  expect(await bench.driver.list()).toHaveLength(2);
  await service.close();
  service = await bench.serve();
  expect((await bench.driver.list()).map((one) => one.id)).toEqual([id]);
});
