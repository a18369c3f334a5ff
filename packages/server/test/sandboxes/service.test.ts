import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxDriver } from "@sandpiper/sandbox/driver";
import { getInstallationGroup, listGroupMembers } from "@sandpiper/sandbox/drivers/oci/cgroup/cgroups";
import type { OciDriver } from "@sandpiper/sandbox/drivers/oci/oci-driver";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { SandboxService } from "@sandpiper/sandbox/service/service";
import { testSpec } from "@sandpiper/sandbox/test/support/oci";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Store } from "../../src/store/store.ts";
import { altered, ServiceBench, sh } from "../support/sandbox-service.ts";

let bench: ServiceBench;
let store: Store;
let service: SandboxService;
let driver: OciDriver;

/** A service as a new process would have it. */
async function serve(wrap?: (driver: OciDriver) => SandboxDriver, startTimeoutMs?: number): Promise<void> {
  service = await bench.serve(startTimeoutMs === undefined ? {} : { startTimeoutMs }, wrap);
  driver = bench.driver;
}

/** Kills everything in a sandbox from outside, as the machine's memory killer or a reboot would. */
async function killProcesses(id: string): Promise<void> {
  const group = getInstallationGroup(join(bench.dir, "sandboxes"));
  for (const pid of listGroupMembers(`${group}/${id}`)) process.kill(pid, "SIGKILL");
  await expect.poll(() => driver.list()).toContainEqual({ id, state: "stopped" });
}

beforeEach(async () => {
  bench = await new ServiceBench().open();
  store = bench.store;
  await serve();
});
afterEach(() => bench.end());

test("creates a sandbox at once, starts it in the background and reports every change", async () => {
  const changes: string[] = [];
  const stop = service.onChange((change) => changes.push("status" in change ? change.status : "removed"));
  const row = await service.create("me");
  expect(row).toMatchObject({ status: "STARTING", userId: "me", specId: "host", statusDetail: null });
  expect(row.id).toMatch(/^[a-z0-9-]{20,63}$/);
  expect(Buffer.from(row.sessionKey, "base64url")).toHaveLength(32);

  const sandbox = await service.running(row.id);
  expect(sandbox.spec).toEqual(testSpec);
  expect(await sh(sandbox, "id -un; pwd")).toBe("agent\n/workspace/project\n");
  expect(await service.get("me", row.id)).toMatchObject({
    status: "RUNNING",
    incarnation: sandbox.incarnation,
  });

  await service.pause("me", row.id);
  await service.remove("me", row.id);
  expect(changes).toEqual(["STARTING", "RUNNING", "PAUSED", "removed"]);
  stop();
});

test("knows its specs and refuses others", async () => {
  expect(service.specs()).toEqual([testSpec]);
  await expect(service.create("me", "no-such-spec")).rejects.toMatchObject({ code: "SandboxSpecNotFound" });
  expect(await store.sandboxes.all()).toEqual([]);
});

test("shows a sandbox only to its owner", async () => {
  const { id } = await service.create("me");
  expect(await service.get("other", id)).toBeUndefined();
  expect((await service.search("other", { limit: 10 })).items).toEqual([]);
  expect((await service.search("me", { limit: 10 })).items.map((row) => row.id)).toEqual([id]);
  for (const operation of [service.pause, service.resume, service.remove]) {
    await expect(operation.call(service, "other", id)).rejects.toMatchObject({ code: "SandboxNotFound" });
    await expect(operation.call(service, "me", "sbx-unknown")).rejects.toMatchObject({
      code: "SandboxNotFound",
    });
  }
  expect(await sh(await service.running(id), "echo alive")).toBe("alive\n");
});

test("pauses and resumes repeatedly, and keeps the processes and the incarnation", async () => {
  const { id } = await service.create("me");
  const sandbox = await service.running(id);
  await sh(sandbox, "sleep 300 >/dev/null 2>&1 & echo $! >/tmp/pid");
  await Promise.all([service.pause("me", id), service.pause("me", id)]);
  expect((await service.get("me", id))?.status).toBe("PAUSED");
  expect(await driver.list()).toMatchObject([{ id, state: "paused" }]);
  await Promise.all([service.resume("me", id), service.resume("me", id)]);
  expect(await service.get("me", id)).toMatchObject({ status: "RUNNING", incarnation: sandbox.incarnation });
  expect(await sh(sandbox, "kill -0 $(cat /tmp/pid) && echo there")).toBe("there\n");

  await service.pause("me", id);
  expect((await service.running(id)).incarnation).toBe(sandbox.incarnation);
  expect((await service.get("me", id))?.status).toBe("RUNNING");
});

test("queues operations behind a running start and behind each other", async () => {
  const { id } = await service.create("me");
  await Promise.all([service.pause("me", id), service.resume("me", id), service.pause("me", id)]);
  expect((await service.get("me", id))?.status).toBe("PAUSED");
  const removals = await Promise.allSettled([service.remove("me", id), service.remove("me", id)]);
  expect(removals.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled"]);
  await expect(service.running(id)).rejects.toMatchObject({ code: "SandboxNotFound" });
  expect(await driver.list()).toEqual([]);
});

test("ends a handle with its sandbox", async () => {
  const { id } = await service.create("me");
  const sandbox = await service.running(id);
  await service.remove("me", id);
  await expect(sandbox.exec({ argv: ["true"] })).rejects.toMatchObject({
    code: "SandboxNotFound",
    message: expect.stringMatching(/deleted/),
  });
});

test("starts a sandbox whose processes died again on its files, as a new incarnation", async () => {
  const { id } = await service.create("me");
  const old = await service.running(id);
  await sh(old, "echo kept >file");
  await killProcesses(id);
  await expect(old.exec({ argv: ["true"] })).rejects.toMatchObject({ code: "SandboxFailed" });
  const fresh = await service.running(id);
  expect(fresh.incarnation).not.toBe(old.incarnation);
  expect(await sh(fresh, "cat file")).toBe("kept\n");
  await expect(old.exec({ argv: ["true"] })).rejects.toMatchObject({
    code: "SandboxFailed",
    message: expect.stringMatching(/has been restarted/),
  });

  await killProcesses(id);
  await service.pause("me", id);
  await service.resume("me", id);
  expect(await sh(await service.running(id), "cat file")).toBe("kept\n");
});

test("finds running and paused sandboxes again after a restart", async () => {
  const [one, two] = [await service.create("me"), await service.create("me")];
  const before = await service.running(one.id);
  await sh(before, "sleep 300 >/dev/null 2>&1 & echo $! >/tmp/pid");
  await service.running(two.id);
  await service.pause("me", two.id);
  await service.close();

  await serve();
  const after = await service.running(one.id);
  expect(after.incarnation).toBe(before.incarnation);
  expect(await sh(after, "kill -0 $(cat /tmp/pid) && echo there")).toBe("there\n");
  expect((await service.get("me", two.id))?.status).toBe("PAUSED");
  await service.resume("me", two.id);
  expect(await sh(await service.running(two.id), "echo alive")).toBe("alive\n");
});

test("a restart resumes starts, restarts dead sandboxes, and removes sandboxes without a record", async () => {
  const died = await service.create("me");
  await sh(await service.running(died.id), "echo kept >file");
  await killProcesses(died.id);
  const frozen = await service.create("me");
  await service.running(frozen.id);
  await driver.pause(frozen.id);
  await driver.start({ id: "orphan", spec: testSpec });
  await service.close();
  const starting: SandboxRow = { ...died, id: "sbx-starting", sessionKey: "another", status: "STARTING" };
  await store.sandboxes.create(starting);

  await serve();
  expect((await driver.list()).map(({ id }) => id)).not.toContain("orphan");
  expect(await sh(await service.running(starting.id), "echo alive")).toBe("alive\n");
  expect(await sh(await service.running(died.id), "cat file")).toBe("kept\n");
  expect((await service.get("me", died.id))?.incarnation).not.toBe(died.incarnation);
  expect((await service.get("me", frozen.id))?.status).toBe("PAUSED");
});

test("says in one sentence why a start failed, and retries on request", async () => {
  await service.close();
  let broken = true;
  await serve((one) =>
    altered(one, {
      start: (request) =>
        one.start(
          broken ? { ...request, spec: { ...request.spec, command: ["/no/such/program"] } } : request,
        ),
    }),
  );
  const { id } = await service.create("me");
  await expect(service.running(id)).rejects.toMatchObject({
    code: "SandboxFailed",
    message: expect.stringMatching(/could not start the sandbox: .+\.$/),
  });
  const row = await service.get("me", id);
  expect(row).toMatchObject({ status: "ERROR", statusDetail: expect.stringMatching(/\.$/) });
  await expect(service.pause("me", id)).rejects.toMatchObject({
    code: "SandboxFailed",
    message: row?.statusDetail,
  });
  broken = false;
  await service.resume("me", id);
  expect(await sh(await service.running(id), "echo alive")).toBe("alive\n");
  expect(await service.get("me", id)).toMatchObject({ status: "RUNNING", statusDetail: null });
});

test("fails a start that takes too long, and finds the sandbox when it comes up later", async () => {
  await service.close();
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let late: Promise<void> | undefined;
  await serve(
    (one) => altered(one, { start: (request) => (late = held.then(() => one.start(request))) }),
    100,
  );
  const { id } = await service.create("me");
  await expect(service.running(id)).rejects.toMatchObject({
    code: "SandboxFailed",
    message: expect.stringMatching(/within 0.1 s/),
  });
  expect((await service.get("me", id))?.status).toBe("ERROR");
  release();
  await late;
  await service.resume("me", id);
  expect(await sh(await service.running(id), "echo alive")).toBe("alive\n");
});

test("takes a sandbox whose start by an ended server has ended late", async () => {
  await service.close();
  await serve((one) =>
    altered(one, {
      async start(request) {
        // The ended server's runtime is faster.
        await one.start(request);
        await one.start(request);
      },
    }),
  );
  const { id } = await service.create("me");
  expect(await sh(await service.running(id), "echo alive")).toBe("alive\n");
  expect(await service.get("me", id)).toMatchObject({ status: "RUNNING", statusDetail: null });
});

test("removes the record of a sandbox whose container cannot be removed, and retries at the next start", async () => {
  await service.close();
  await serve((one) =>
    altered(one, {
      remove: async () => {
        throw new Error("busy");
      },
    }),
  );
  const { id } = await service.create("me");
  await service.running(id);
  await service.remove("me", id);
  expect(await service.get("me", id)).toBeUndefined();
  await service.close();
  await serve();
  expect(await driver.list()).toEqual([]);
});

test("starts many sandboxes at the same time", async () => {
  const rows = await Promise.all(Array.from({ length: 12 }, () => service.create("me")));
  const outputs = await Promise.all(rows.map(async ({ id }) => sh(await service.running(id), "hostname")));
  expect(outputs).toEqual(rows.map(({ id }) => `${id}\n`));
});

test("a start whose result cannot be stored for a while is repeated automatically", async () => {
  const { sandboxes } = store;
  const update = sandboxes.update.bind(sandboxes);
  let refused = 0;
  sandboxes.update = async () => {
    refused++;
    throw new PlatformError(
      "StorageFull",
      "The disk of the data folder is full: nothing was stored; make room and try again.",
    );
  };
  const { id } = await service.create("me");
  // As running, and then as failed.
  await expect.poll(() => refused).toBeGreaterThanOrEqual(2);
  sandboxes.update = update;
  expect((await service.get("me", id))?.status).toBe("STARTING");
  await expect.poll(async () => (await service.get("me", id))?.status).toBe("RUNNING");
  expect(await sh(await service.running(id), "echo works")).toBe("works\n");
});
