import { mkdtempSync, rmSync } from "node:fs";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import type { PreparedSpec } from "../../src/driver.ts";
import { KubernetesDriver } from "../../src/drivers/kubernetes/kubernetes-driver.ts";
import { Registries } from "../../src/specs/registries.ts";
import { createHostSpec } from "../../src/specs/specs.ts";
import { run, suiteLimits } from "../driver-suite/context.ts";
import { clusterImage, clusterKubeconfig, kubectl, loadClusterImage } from "../support/cluster-image.ts";

/** Two servers start sandboxes from the warm pods that they share. */

const installation = "warm";
const label = `sandpiper/installation=${installation}`;
let dir: string;
let spec: PreparedSpec;
const drivers: KubernetesDriver[] = [];

async function openDriver(warmPods: number): Promise<KubernetesDriver> {
  const registries = new Registries({ allowed: ["sandpiper.test"] });
  const kubeconfig = clusterKubeconfig();
  const driver = new KubernetesDriver({
    ...{ dir, kubeconfig, installation, runtimeClass: "runc", registries, warmPods },
  });
  await driver.open();
  drivers.push(driver);
  return driver;
}

interface Listed {
  metadata: { name: string; uid: string; labels: Record<string, string> };
}

/** Lists the warm pods or their claims. */
function waiting(kind: "pods" | "pvc"): Listed[] {
  const text = kubectl("get", kind, "-l", `${label},sandpiper/warm`, "-o", "json");
  return (JSON.parse(text) as { items: Listed[] }).items;
}

/** A claim goes a moment after its pod. */
async function expectNoneWaiting(): Promise<void> {
  await expect.poll(() => [...waiting("pods"), ...waiting("pvc")]).toEqual([]);
}

function podOf(id: string): Listed["metadata"] {
  return JSON.parse(kubectl("get", "pods", "-l", `${label},sandpiper/sandbox=${id}`, "-o", "json")).items[0]
    .metadata;
}

/** Waits until both servers are connected to the same warm pods. A server looks at each reap. */
async function awaitShared(servers: KubernetesDriver[], sandboxes: string[]): Promise<void> {
  const known = { ...nothing, sandboxes: new Set(sandboxes) };
  const reap = async () => {
    for (const server of servers) await server.reap(known);
    return Math.min(...servers.map(({ waitingPods }) => waitingPods));
  };
  await expect.poll(reap).toBeGreaterThanOrEqual(2);
}

const nothing = { sandboxes: new Set<string>(), snapshots: new Set<string>() };

beforeAll(async () => {
  dir = mkdtempSync("/tmp/sandpiper-test-");
  loadClusterImage();
  const driver = await openDriver(0);
  const root = { kind: "image" as const, reference: clusterImage };
  spec = await driver.prepare({
    ...createHostSpec({ ...suiteLimits, cpus: 0.5 }),
    root,
    user: "agent",
    env: { OF_SPEC: "x" },
  });
});

afterEach(async () => {
  vi.useRealTimers();
  for (const driver of drivers.splice(1)) await driver.close();
  // The first driver has no pool, so it removes the warm pods of closed and killed drivers too.
  await drivers[0]!.reap(nothing);
  await expectNoneWaiting();
});

afterAll(async () => {
  for (const driver of drivers) await driver.close();
  rmSync(dir, { recursive: true, force: true });
});

test("the second sandbox of a kind takes a warm pod, and works as any other sandbox", async () => {
  const driver = await openDriver(1);
  await driver.start({ id: "first", spec });
  await expect.poll(() => driver.waitingPods).toBe(1);
  const [{ metadata: warm }] = waiting("pods") as [Listed];
  const files = [{ path: "~/.config/tool.conf", content: "given\n" }];
  await driver.start({ id: "second", spec: { ...spec, env: { ...spec.env, LATER: "y" } }, files });
  expect(podOf("second").uid).toBe(warm.uid);
  const command = "id -u; pwd; echo $OF_SPEC $LATER; cat ~/.profile ~/.config/tool.conf; echo kept >file";
  expect((await run(driver, "second", command)).out).toBe(
    `1000\n${spec.workingDir}\nx y\nof the image\ngiven\n`,
  );
  await driver.pause("second");
  const other = await openDriver(0);
  expect(await other.list()).toEqual(
    expect.arrayContaining([
      { id: "first", state: "running" },
      { id: "second", state: "paused" },
    ]),
  );
  await driver.resume("second");
  await driver.snapshot("second", "kept");
  await driver.stop("second");
  expect((await driver.list()).find(({ id }) => id === "second")?.state).toBe("stopped");
  await driver.start({ id: "second", spec });
  expect((await run(driver, "second", "cat file")).out).toBe("kept\n");
  await expect(driver.start({ id: "second", spec })).rejects.toThrow(/already/);
  await driver.start({ id: "copy", spec, snapshot: "kept" });
  expect((await run(driver, "copy", "cat file")).out).toBe("kept\n");
  await driver.remove("second");
  expect((await driver.list()).map(({ id }) => id).sort()).toEqual(["copy", "first"]);
});

test("a sandbox of another kind does not take the warm pod", async () => {
  const driver = await openDriver(1);
  await driver.start({ id: "first", spec });
  await expect.poll(() => driver.waitingPods).toBe(1);
  const [{ metadata: warm }] = waiting("pods") as [Listed];
  const small = { ...spec, limits: { ...spec.limits, memoryBytes: spec.limits.memoryBytes / 2 } };
  await driver.start({ id: "small", spec: small });
  expect(podOf("small").uid).not.toBe(warm.uid);
});

test("servers that start sandboxes at once never give two of them one pod, and keep few warm pods", async () => {
  const servers = [await openDriver(2), await openDriver(2)];
  await servers[0]!.start({ id: "a", spec });
  await servers[1]!.start({ id: "b", spec });
  await awaitShared(servers, ["a", "b"]);
  const ids = ["c", "d", "e", "f", "g", "h"];
  await Promise.all(ids.map((id, index) => servers[index % 2]!.start({ id, spec })));
  expect(new Set(ids.map((id) => podOf(id).uid)).size).toBe(ids.length);
  const names = await Promise.all(
    ids.map(async (id, index) => {
      const server = servers[index % 2]!;
      await run(server, id, `echo ${id} >mine`);
      return (await run(server, id, "cat mine")).out.trim();
    }),
  );
  expect(names).toEqual(ids);
  await awaitShared(servers, ["a", "b", ...ids]);
  expect(waiting("pods").length).toBeLessThanOrEqual(4);
});

test("a sandbox that two servers start at once runs at most once", async () => {
  const servers = [await openDriver(2), await openDriver(2)];
  await servers[0]!.start({ id: "a", spec });
  await servers[1]!.start({ id: "b", spec });
  await awaitShared(servers, ["a", "b"]);
  const results = await Promise.allSettled(servers.map((one) => one.start({ id: "same", spec })));
  expect(results.filter(({ status }) => status === "fulfilled").length).toBeLessThanOrEqual(1);
  const started = results.filter(({ status }) => status === "fulfilled").length;
  const pods = JSON.parse(kubectl("get", "pods", "-l", `${label},sandpiper/sandbox=same`, "-o", "json"));
  expect(pods.items).toHaveLength(started);
});

test("a sandbox starts anew when its server died while taking a warm pod", async () => {
  const driver = await openDriver(1);
  await driver.start({ id: "first", spec });
  await expect.poll(() => driver.waitingPods).toBe(1);
  const [{ metadata: warm }] = waiting("pods") as [Listed];
  // The server has changed the claim and died before it changed the pod.
  kubectl("label", "pvc", warm.name, "sandpiper/warm-", "sandpiper/sandbox=torn");
  const next = await openDriver(1);
  await next.start({ id: "torn", spec });
  expect(podOf("torn")).toMatchObject({ name: warm.name });
  expect(podOf("torn").uid).not.toBe(warm.uid);
  expect((await run(next, "torn", "echo works")).out).toBe("works\n");
  await driver.close();
});

test("a server removes the warm pods that it has made when it ends, and leaves those of others", async () => {
  const servers = [await openDriver(1), await openDriver(2)] as const;
  await servers[0].start({ id: "first", spec });
  await expect.poll(() => servers[0].waitingPods).toBe(1);
  const [{ metadata: ofFirst }] = waiting("pods") as [Listed];
  await servers[1].start({ id: "second", spec });
  await expect.poll(() => servers[1].waitingPods).toBe(2);
  await servers[1].close();
  expect(waiting("pods").map(({ metadata }) => metadata.name)).toEqual([ofFirst.name]);
  await servers[0].close();
  await expectNoneWaiting();
});

test("a server that ends does not wait for a warm pod that no node takes", async () => {
  const driver = await openDriver(1);
  await driver.start({ id: "first", spec });
  await expect.poll(() => driver.waitingPods).toBe(1);
  kubectl("cordon", "testbed");
  try {
    await driver.start({ id: "second", spec });
    await expect.poll(() => waiting("pods").length).toBe(1);
    const begin = Date.now();
    await driver.close();
    expect(Date.now() - begin).toBeLessThan(10_000);
    await expectNoneWaiting();
  } finally {
    kubectl("uncordon", "testbed");
  }
});

test("old warm pods go, and all of them when the pool is turned off", async () => {
  const driver = await openDriver(1);
  await driver.start({ id: "first", spec });
  await expect.poll(() => driver.waitingPods).toBe(1);
  const cleaner = await openDriver(1);
  const known = { ...nothing, sandboxes: new Set(["first"]) };
  await cleaner.reap(known);
  const [{ metadata: old }] = waiting("pods") as [Listed];
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2 * 3_600_000 });
  await cleaner.reap(known);
  vi.useRealTimers();
  expect(waiting("pods").map(({ metadata }) => metadata.name)).not.toContain(old.name);
  await expect.poll(() => driver.reap(known).then(() => driver.waitingPods)).toBe(1);
  const off = await openDriver(0);
  await off.reap(known);
  await expectNoneWaiting();
  expect(await off.list()).toEqual([{ id: "first", state: "running" }]);
});
