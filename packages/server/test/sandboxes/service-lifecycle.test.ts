import { once } from "node:events";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxProcess } from "@sandpiper/sandbox/driver";
import type { OciDriver } from "@sandpiper/sandbox/drivers/oci/oci-driver";
import { EgressProxy } from "@sandpiper/sandbox/network/proxy/egress-proxy";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { SandboxService } from "@sandpiper/sandbox/service/service";
import { testSpec } from "@sandpiper/sandbox/test/support/oci";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { altered, ServiceBench, sh } from "../support/sandbox-service.ts";

const idle = { pauseAfterMs: 1_000, hibernateAfterMs: 500, deleteAfterMs: 100_000 };

let bench: ServiceBench;
let service: SandboxService;

beforeEach(async () => {
  bench = await new ServiceBench().open();
});
afterEach(() => bench.end());

const row = (id: string) => service.get("me", id);

test("an idle sandbox is paused and hibernated, and its next use starts it on its files", async () => {
  service = await bench.serve({ idle });
  const { id } = await service.create("me");
  const before = await service.running(id);
  await sh(before, "echo kept >file; sleep 300 >/dev/null 2>&1 &");
  await bench.pass(999);
  expect((await row(id))?.status).toBe("RUNNING");
  await bench.pass(1);
  expect(await row(id)).toMatchObject({ status: "PAUSED", statusDetail: null });
  expect(await bench.state(id)).toBe("paused");
  await bench.pass(500);
  expect((await row(id))?.status).toBe("PAUSED");
  expect(await bench.state(id)).toBe("stopped");
  await service.pause("me", id);

  const after = await service.running(id);
  expect((await row(id))?.status).toBe("RUNNING");
  expect(after.incarnation).not.toBe(before.incarnation);
  expect(await sh(after, "cat file")).toBe("kept\n");
  await expect(before.exec({ argv: ["true"] })).rejects.toMatchObject({
    code: "SandboxFailed",
    message: expect.stringMatching(/has been restarted/),
  });
});

test.each([1e9, -1e9])(
  "a clock change of %d ms makes no sandbox idle and keeps none active permanently",
  async (jump) => {
    service = await bench.serve({ idle });
    const { id } = await service.create("me");
    await service.running(id);
    const other = await service.create("me");
    bench.jump = jump;
    await service.running(other.id);
    await bench.pass(999);
    expect((await row(other.id))?.status).toBe("RUNNING");
    expect((await row(id))?.status).toBe("RUNNING");
    await bench.pass(1);
    expect((await row(id))?.status).toBe("PAUSED");
    bench.jump = 0;
    await bench.pass(499);
    expect(await bench.state(id)).toBe("paused");
    await bench.pass(1);
    expect(await bench.state(id)).toBe("stopped");
  },
);

test("a sandbox stays hibernated after a restart, and its last use is kept", async () => {
  service = await bench.serve({ idle });
  const { id } = await service.create("me");
  await sh(await service.running(id), "echo kept >file");
  const usedAt = bench.time;
  await bench.pass(1_000);
  await bench.pass(500);
  await service.close();
  service = await bench.serve({ idle });
  expect(await row(id)).toMatchObject({ status: "PAUSED", lastUsedAt: usedAt });
  expect(await sh(await service.running(id), "cat file")).toBe("kept\n");
});

test("a sandbox has egress after a restart, even if it was paused or its program took the proxy's port", async () => {
  const specs = [{ ...testSpec, network: { mode: "open" as const, allow: [], credentials: [] } }];
  let egress: EgressProxy | undefined;
  const serve = async () => {
    egress = await EgressProxy.open({ dir: join(bench.dir, "network"), logger: pino({ level: "silent" }) });
    service = await bench.serve({ specs, egress });
  };
  const request =
    "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; head -c 12 <&3";
  const ask = async (id: string) => sh(await service.running(id), `bash -c "${request}"`);
  await serve();
  const [paused, greedy] = [(await service.create("me")).id, (await service.create("me")).id];
  for (const id of [paused, greedy]) expect(await ask(id)).toBe("HTTP/1.1 407");
  await service.pause("me", paused);
  const take =
    'until ($s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:3128")) {} system("touch taken"); sleep';
  await sh(await service.running(greedy), `perl -MIO::Socket::INET -e '${take}' >/dev/null 2>&1 &`);
  await egress?.close();
  await expect.poll(async () => sh(await service.running(greedy), "ls taken")).toBe("taken\n");
  await service.close();
  await serve();
  expect((await row(paused))?.status).toBe("PAUSED");
  for (const id of [paused, greedy]) expect(await ask(id)).toBe("HTTP/1.1 407");
  await egress?.close();
});

test("a pause between two steps of a user's work does not stop it", async () => {
  let handle: Sandbox | undefined;
  let process: SandboxProcess | undefined;
  let refusal: PromiseWithResolvers<void> | undefined;
  const pauses = (driver: OciDriver) =>
    altered(driver, {
      pause: async (id) => {
        process = await handle?.exec({ argv: ["cat"] });
        process?.stdin.write("begun");
        if (process) await once(process.stdout, "readable");
        await driver.pause(id);
      },
      resume: async (id) => {
        await refusal?.promise;
        await driver.resume(id);
      },
      exec: (id, command) =>
        driver.exec(id, command).catch((error) => {
          refusal?.resolve();
          throw error;
        }),
    });
  service = await bench.serve({ idle }, pauses);
  const { id } = await service.create("me");
  const sandbox = await service.running(id);
  await service.pause("me", id);
  expect(await sh(sandbox, "echo woken")).toBe("woken\n");
  await service.pause("me", id);
  await service.connect(id, 1).catch((error) => expect(error).toMatchObject({ code: "PortUnreachable" }));

  // It runs again before the refused command gets its error.
  refusal = Promise.withResolvers<void>();
  const over = Promise.all([service.pause("me", id), service.resume("me", id)]);
  await expect.poll(() => bench.state(id)).toBe("paused");
  expect(await sh(sandbox, "echo again")).toBe("again\n");
  await over;

  handle = sandbox;
  await bench.pass(1_000);
  expect(process).toBeDefined();
  expect((await row(id))?.status).toBe("RUNNING");
  process?.stdin.end();
  process?.stdout.resume();
  expect(await process?.exit).toMatchObject({ code: 0 });
});

test("commands, busy lease holders and connections count as use; an idle terminal does not", async () => {
  service = await bench.serve({ idle });
  const { id } = await service.create("me");
  const sandbox = await service.running(id);
  const command = await sandbox.exec({ argv: ["sleep", "300"] });
  await bench.pass(5_000);
  command.kill();
  await command.exit;
  await bench.pass(999);
  let busy = true;
  const leave = service.acquire(id, { busy: () => busy, beforeStop: async () => {} });
  await bench.pass(5_000);
  busy = false;
  await bench.pass(999);

  await sandbox.exec({
    argv: ["python3", "-m", "http.server", "8000", "--bind", "127.0.0.1"],
    tty: { cols: 80, rows: 24 },
  });
  const connection = await expect
    .poll(() => service.connect(id, 8000).catch(() => undefined))
    .toBeDefined()
    .then(() => service.connect(id, 8000));
  await bench.pass(999);
  connection.write("GET / HTTP/1.1\r\n");
  await bench.pass(999);
  expect((await row(id))?.status).toBe("RUNNING");
  // An idle connection is not use. The pause closes it, so its user reconnects and wakes the
  // sandbox.
  const closed = once(connection, "close");
  await bench.pass(1_000);
  await closed;
  expect((await row(id))?.status).toBe("PAUSED");
  leave();
  const again = await service.connect(id, 8000);
  expect((await row(id))?.status).toBe("RUNNING");
  again.destroy();
  await expect(service.connect(id, 9)).rejects.toMatchObject({ code: "PortUnreachable" });
});

test("a sandbox that was not used for days is deleted, unless its conversation is running", async () => {
  service = await bench.serve({ idle });
  const [one, two] = [await service.create("me"), await service.create("me")];
  await service.running(one.id);
  await service.running(two.id);
  service.acquire(two.id, { busy: () => true, beforeStop: async () => {} });
  await bench.pass(1_000);
  await bench.pass(100_000);
  expect(await row(one.id)).toBeUndefined();
  expect(await bench.state(one.id)).toBeUndefined();
  expect((await row(two.id))?.status).toBe("RUNNING");
});

test("the number of running sandboxes of a user is limited; the least recently used is paused", async () => {
  service = await bench.serve({ maxPerUser: 2 });
  const make = async (user: string) => {
    bench.time += 1_000;
    const { id } = await service.create(user);
    await service.running(id);
    return id;
  };
  const [first, second, strange] = [await make("me"), await make("me"), await make("other")];
  bench.time += 1_000;
  await service.running(first);
  const third = await make("me");
  const statuses = () => Promise.all([first, second, third].map(async (id) => (await row(id))?.status));
  expect(await statuses()).toEqual(["RUNNING", "PAUSED", "RUNNING"]);
  await service.running(second);
  expect(await statuses()).toEqual(["PAUSED", "RUNNING", "RUNNING"]);
  expect((await service.get("other", strange))?.status).toBe("RUNNING");
  // The limit also holds for concurrent starts.
  await Promise.all([first, second, third].map((id) => service.running(id).catch(() => {})));
  const more = await Promise.all([1, 2, 3].map(() => service.create("me")));
  await Promise.all(more.map(({ id }) => service.running(id)));
  await expect
    .poll(
      async () =>
        (await service.search("me", { limit: 10 })).items.filter(({ status }) => status === "RUNNING").length,
    )
    .toBe(2);
});

test("a sandbox in use is never paused for another one, which waits in order or is refused", async () => {
  service = await bench.serve({ maxPerUser: 1 });
  const { id: used } = await service.create("me");
  const process = await (await service.running(used)).exec({ argv: ["sleep", "100"] });
  const [next, last] = [await service.create("me"), await service.create("me")];
  // An operation that was asked for before the wait began does not wait with the sandbox.
  const early = service.pause("me", last.id);
  early.catch(() => {});
  const waiting = (position: number) => ({
    status: "STARTING",
    statusDetail: `Waiting in position ${position}: all 1 sandboxes that you may run at a time are in use.`,
  });
  await expect.poll(() => row(next.id)).toMatchObject(waiting(1));
  await expect.poll(() => row(last.id)).toMatchObject(waiting(2));
  expect((await row(used))?.status).toBe("RUNNING");
  for (const refused of [
    early,
    service.pause("me", last.id),
    service.resume("me", last.id),
    service.snapshots.create("me", last.id),
  ])
    await expect(refused).rejects.toMatchObject({
      code: "SandboxNotRunning",
      message: `The sandbox ${last.id} has not started yet: it waits in position 2, because all 1 sandboxes that you may run at a time are in use. Delete it, or pause or delete another one.`,
    });
  const release = service.acquire(next.id, { busy: () => true, beforeStop: async () => {} });
  process.kill();
  expect((await service.running(next.id)).id).toBe(next.id);
  expect((await row(used))?.status).toBe("PAUSED");
  await expect.poll(() => row(last.id)).toMatchObject(waiting(1));
  await expect(service.resume("me", used)).rejects.toMatchObject({
    code: "SandboxFailed",
    message: expect.stringMatching(/^All 1 sandboxes .* are in use: /),
  });
  expect(await row(used)).toMatchObject({ status: "PAUSED", statusDetail: null });
  await service.remove("me", last.id);
  release();
  await service.resume("me", used);
  expect([(await row(used))?.status, (await row(next.id))?.status]).toEqual(["RUNNING", "PAUSED"]);
});

test("a sandbox that could not be deleted can still be used", async () => {
  service = await bench.serve();
  const { id } = await service.create("me");
  await service.running(id);
  const { remove } = bench.store.sandboxes;
  bench.store.sandboxes.remove = () => Promise.reject(new PlatformError("StorageFull", "The disk is full."));
  await expect(service.remove("me", id)).rejects.toMatchObject({ code: "StorageFull" });
  bench.store.sandboxes.remove = remove;
  await bench.driver.stop(id);
  await service.pause("me", id);
  expect(await sh(await service.running(id), "echo alive")).toBe("alive\n");
});

test("a sandbox over its disk limit is stopped with a reason, and has a minute after its resume", async () => {
  service = await bench.serve({
    specs: [{ ...testSpec, limits: { ...testSpec.limits, diskBytes: 4 * 2 ** 20 } }],
  });
  const { id } = await service.create("me");
  await sh(await service.running(id), "head -c 8000000 /dev/zero >big; echo small >small");
  await bench.pass(5_000);
  const { status, statusDetail } = (await row(id))!;
  expect([status, statusDetail]).toEqual(["PAUSED", expect.stringMatching(/files take .* of the 4\.0 MB/)]);
  expect(await bench.state(id)).toBe("stopped");
  await expect(service.running(id)).rejects.toMatchObject({ code: "SandboxFailed", message: statusDetail });
  await service.resume("me", id);
  await bench.pass(5_000);
  expect(await sh(await service.running(id), "cat small; rm big")).toBe("small\n");
  await bench.pass(70_000);
  expect(await row(id)).toMatchObject({ status: "RUNNING", statusDetail: null });
});

test("snapshots do not empty what the limits count, and empty files count", async () => {
  const limits = { ...testSpec.limits, diskBytes: 4 * 2 ** 20 };
  service = await bench.serve({ specs: [{ ...testSpec, limits }], quotas: { files: 300 } });
  const [full, crowded] = [await service.create("me"), await service.create("me")];
  for (let round = 0; round < 2; round++) {
    await sh(await service.running(full.id), `head -c 3000000 /dev/zero >${round}; sync ${round}`);
    await service.snapshots.create("me", full.id);
    await sh(await service.running(full.id), `rm ${round}`);
  }
  await sh(await service.running(crowded.id), "for i in $(seq 400); do : >$i; done");
  await bench.pass(5_000);
  for (const [{ id }, words] of [
    [full, /files take .* of the 4\.0 MB .*snapshots/],
    [crowded, /more than the 300 files/],
  ] as const)
    expect(await row(id)).toMatchObject({ status: "PAUSED", statusDetail: expect.stringMatching(words) });
});

test("a user has a limited number of snapshots and of sandboxes", async () => {
  service = await bench.serve({ quotas: { snapshots: 1, sandboxes: 2 } });
  const [{ id }] = [await service.create("me"), await service.create("me")];
  await expect(service.create("me")).rejects.toMatchObject({ code: "TooManySandboxes", status: 409 });
  await service.running(id);
  const snapshot = await service.snapshots.create("me", id);
  await expect(service.snapshots.create("me", id)).rejects.toMatchObject({ code: "TooManySnapshots" });
  await service.snapshots.remove("me", snapshot.id);
  await service.snapshots.create("me", id);
  await service.create("other");
});
