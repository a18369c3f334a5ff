import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxService } from "@sandpiper/sandbox/service/service";
import { testSpec } from "@sandpiper/sandbox/test/support/oci";
import { afterEach, beforeEach, expect, test } from "vitest";
import { altered, ServiceBench, sh } from "../support/sandbox-service.ts";

let bench: ServiceBench;
let service: SandboxService;

beforeEach(async () => {
  bench = await new ServiceBench().open();
});
afterEach(() => bench.end());

const row = (id: string) => service.get("me", id);

test("the record shows the progress of a preparation, which has its own time limit", async () => {
  let go = () => {};
  const held = new Promise<void>((resolve) => {
    go = resolve;
  });
  service = await bench.serve({ startTimeoutMs: 5_000 }, (one) =>
    altered(one, {
      async prepare(spec, options) {
        options?.onProgress?.("fetching layer 1 of 2");
        options?.onProgress?.("fetching layer 2 of 2");
        await held;
        return { ...testSpec, ...spec, user: testSpec.user, env: { FROM_IMAGE: "1" } };
      },
    }),
  );
  const { id } = await service.create("me");
  await expect
    .poll(() => row(id))
    .toMatchObject({ status: "STARTING", statusDetail: "fetching layer 1 of 2" });
  go();
  const sandbox = await service.running(id);
  expect(await row(id)).toMatchObject({ status: "RUNNING", statusDetail: null, prepared: true });
  expect(await sh(sandbox, "echo $FROM_IMAGE")).toBe("1\n");
  // A spec that is configured no more, or otherwise, does not change a sandbox that there is.
  await service.close();
  service = await bench.serve({ specs: [{ ...testSpec, id: "another" }] });
  await service.pause("me", id);
  expect((await service.running(id)).spec.env).toEqual({ FROM_IMAGE: "1" });
});

test("the record and the waiting callers get the reason why a spec cannot be prepared", async () => {
  const sentence = "The registry of example/image does not answer.";
  service = await bench.serve({}, (one) =>
    altered(one, { prepare: () => Promise.reject(new PlatformError("SandboxSpecUnusable", sentence)) }),
  );
  const { id } = await service.create("me");
  await expect(service.running(id)).rejects.toMatchObject({ code: "SandboxFailed", message: sentence });
  expect(await row(id)).toMatchObject({ status: "ERROR", statusDetail: sentence });
  await expect(service.snapshots.create("me", id)).rejects.toMatchObject({ code: "SandboxFailed" });
});

test("an endless preparation is ended by deletion, its time limit or shutdown; the next server repeats it", async () => {
  const never = (one: ServiceBench["driver"]) => altered(one, { prepare: () => new Promise(() => {}) });
  service = await bench.serve({}, never);
  const deleted = await service.create("me");
  const waiting = service.running(deleted.id);
  const failed = expect(waiting).rejects.toMatchObject({ code: "SandboxNotFound" });
  const changes: string[] = [];
  service.onChange((change) => changes.push("status" in change ? change.status : "removed"));
  await service.remove("me", deleted.id);
  await failed;
  expect(changes).toEqual(["removed"]);
  expect(await bench.store.sandboxes.all()).toEqual([]);
  expect(await bench.driver.list()).toEqual([]);
  const left = await service.create("me");
  await service.close();
  service = await bench.serve({ prepareTimeoutMs: 50 }, never);
  await expect(service.running(left.id)).rejects.toMatchObject({
    message: expect.stringMatching(/not ready within 0.05 s/),
  });
  await service.close();
  service = await bench.serve();
  await service.resume("me", left.id);
  expect(await row(left.id)).toMatchObject({ status: "RUNNING", statusDetail: null });
});

test("a snapshot keeps the files, and sandboxes can start from it even after the first sandbox is deleted", async () => {
  service = await bench.serve();
  const { id } = await service.create("me", undefined, { network: { mode: "none" } });
  await sh(await service.running(id), "echo then >file");
  const snapshot = await service.snapshots.create("me", id);
  expect(snapshot).toMatchObject({ sandboxId: id, userId: "me" });
  expect((await row(id))?.status).toBe("RUNNING");
  expect(await sh(await service.running(id), "cat file; echo now >file")).toBe("then\n");
  await service.pause("me", id);
  await service.snapshots.create("me", id);
  expect((await row(id))?.status).toBe("PAUSED");

  const fork = await service.create("me", undefined, { snapshotId: snapshot.id });
  expect(await sh(await service.running(fork.id), "cat file; echo fork >file")).toBe("then\n");
  expect(await sh(await service.running(id), "cat file")).toBe("now\n");
  await service.remove("me", id);
  await service.close();
  service = await bench.serve();
  expect((await service.snapshots.search("me", { limit: 10 })).items).toHaveLength(2);
  const late = await service.create("me", undefined, { snapshotId: snapshot.id });
  expect(await sh(await service.running(late.id), "cat file")).toBe("then\n");
  expect(await sh(await service.running(fork.id), "cat file")).toBe("fork\n");

  await expect(service.create("other", undefined, { snapshotId: snapshot.id })).rejects.toMatchObject({
    code: "SnapshotNotFound",
  });
  await expect(service.snapshots.remove("other", snapshot.id)).rejects.toMatchObject({
    code: "SnapshotNotFound",
  });
  await service.snapshots.remove("me", snapshot.id);
  await expect(service.create("me", undefined, { snapshotId: snapshot.id })).rejects.toMatchObject({
    code: "SnapshotNotFound",
  });
  expect(await sh(await service.running(late.id), "cat file")).toBe("then\n");
});

test("sandboxes that will start from a snapshot get its files even if it is deleted first, also after a crash", async () => {
  service = await bench.serve();
  const { id } = await service.create("me");
  await sh(await service.running(id), "echo kept >file");
  const { id: snapshotId } = await service.snapshots.create("me", id);
  const forks = [
    await service.create("me", undefined, { snapshotId }),
    await service.create("me", undefined, { snapshotId }),
  ];
  const crashed = { ...forks[0]!, id: "sbx-crashed", sessionKey: "another" };
  await bench.store.sandboxes.create(crashed);
  await service.snapshots.remove("me", snapshotId);
  for (const fork of forks) expect(await sh(await service.running(fork.id), "cat file")).toBe("kept\n");
  expect(await bench.driver.snapshots()).toEqual([]);

  const again = await service.snapshots.create("me", id);
  await bench.store.sandboxes.update(crashed.id, { snapshotId: again.id });
  await bench.store.snapshots.remove(again.id);
  await service.close();
  service = await bench.serve();
  expect(await sh(await service.running(crashed.id), "cat file")).toBe("kept\n");
  expect(await bench.driver.snapshots()).toEqual([]);
});

test("a snapshot that cannot be recorded is removed, and the sandbox keeps running", async () => {
  service = await bench.serve();
  const { id } = await service.create("me");
  await sh(await service.running(id), "echo kept >file");
  const { create } = bench.store.snapshots;
  bench.store.snapshots.create = () => Promise.reject(new PlatformError("StorageFull", "The disk is full."));
  await expect(service.snapshots.create("me", id)).rejects.toMatchObject({ code: "StorageFull" });
  bench.store.snapshots.create = create;
  expect(await bench.driver.snapshots()).toEqual([]);
  expect((await row(id))?.status).toBe("RUNNING");
  expect(await sh(await service.running(id), "cat file")).toBe("kept\n");
});

test("an unexpected failure of a snapshot is one error, and the sandbox keeps running", async () => {
  const failures: Error[] = [
    new Error("socket hang up"),
    Object.assign(new Error("full"), { code: "ENOSPC" }),
  ];
  service = await bench.serve({}, (one) =>
    altered(one, { snapshot: () => Promise.reject(failures.shift()) }),
  );
  const { id } = await service.create("me");
  const sandbox = await service.running(id);
  await expect(service.snapshots.create("me", id)).rejects.toMatchObject({
    code: "SnapshotFailed",
    status: 503,
    message: expect.stringMatching(/socket hang up.*try again/),
  });
  // The server answers a full disk with a status of its own.
  await expect(service.snapshots.create("me", id)).rejects.toMatchObject({ code: "ENOSPC" });
  expect(await sh(sandbox, "echo works")).toBe("works\n");
  expect((await service.snapshots.search("me", { limit: 10 })).items).toEqual([]);
});

test("remains of sandboxes and snapshots without a record are removed at the start after a crash", async () => {
  service = await bench.serve();
  const { id } = await service.create("me");
  await service.running(id);
  await bench.driver.start({ id: "orphan", spec: testSpec });
  await bench.driver.snapshot(id, "snap-orphan");
  await service.close();
  service = await bench.serve();
  expect((await bench.driver.list()).map((one) => one.id)).toEqual([id]);
  expect(await bench.driver.snapshots()).toEqual([]);
  expect(await sh(await service.running(id), "echo alive")).toBe("alive\n");
});
