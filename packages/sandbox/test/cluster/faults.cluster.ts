import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { connect as connectTcp, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { PreparedSpec, SandboxSpec } from "../../src/driver.ts";
import { findMissingRights } from "../../src/drivers/kubernetes/access.ts";
import { Cluster } from "../../src/drivers/kubernetes/cluster.ts";
import { KubernetesDriver } from "../../src/drivers/kubernetes/kubernetes-driver.ts";
import { Registries } from "../../src/specs/registries.ts";
import { createHostSpec } from "../../src/specs/specs.ts";
import { run, suiteLimits } from "../driver-suite/context.ts";
import {
  clusterImage,
  clusterKubeconfig,
  kubectl,
  loadClusterImage,
  writeKubeconfig,
} from "../support/cluster-image.ts";

/**
 * Faults of the cluster: it refuses, is full, or goes away. The service account has least rights.
 */

const namespace = "faults";
const spec: SandboxSpec = {
  ...createHostSpec(suiteLimits),
  root: { kind: "image", reference: clusterImage },
  user: "agent",
};
let dir: string;
let kubeconfig: string;
const drivers: KubernetesDriver[] = [];

function openDriver(options: Partial<ConstructorParameters<typeof KubernetesDriver>[0]> = {}) {
  const registries = new Registries({ allowed: ["sandpiper.test", "127.0.0.1:1"] });
  const driver = new KubernetesDriver({
    ...{ dir, kubeconfig, namespace, runtimeClass: "runc", registries },
    ...options,
  });
  drivers.push(driver);
  return driver.open().then(() => driver);
}

const apply = (...objects: object[]) =>
  execFileSync("sh", ["-c", 'cat >"$0/objects.json"', dir], {
    input: JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }),
  }) && kubectl("apply", "-f", join(dir, "objects.json"));

beforeAll(async () => {
  dir = mkdtempSync("/tmp/sandpiper-test-");
  loadClusterImage();
  const metadata = { name: "server", namespace };
  apply(
    { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } },
    { apiVersion: "v1", kind: "ServiceAccount", metadata },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "Role",
      metadata,
      rules: [
        {
          apiGroups: [""],
          resources: ["pods"],
          verbs: ["create", "get", "list", "watch", "patch", "delete"],
        },
        { apiGroups: [""], resources: ["pods/exec"], verbs: ["create", "get"] },
        {
          apiGroups: [""],
          resources: ["persistentvolumeclaims"],
          verbs: ["create", "get", "list", "patch", "delete"],
        },
        { apiGroups: [""], resources: ["configmaps"], verbs: ["create"] },
        { apiGroups: ["networking.k8s.io"], resources: ["networkpolicies"], verbs: ["create"] },
      ],
    },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "RoleBinding",
      metadata,
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "server" },
      subjects: [{ kind: "ServiceAccount", ...metadata }],
    },
  );
  kubeconfig = writeKubeconfig(
    join(dir, "server.conf"),
    kubectl("-n", namespace, "create", "token", "server").trim(),
  );
});

afterAll(async () => {
  for (const driver of drivers) await driver.close();
  kubectl("delete", "namespace", namespace, "--wait=false");
  rmSync(dir, { recursive: true, force: true });
});

test("the documented rights are enough, and the check names each missing right", async () => {
  expect(await findMissingRights(new Cluster({ kubeconfig, namespace }))).toEqual([
    { verb: "list", resource: "storageclasses.storage.k8s.io", isOptional: true },
  ]);
  const elsewhere = await findMissingRights(new Cluster({ kubeconfig, namespace: "default" }));
  expect(elsewhere).toContainEqual({ verb: "get", resource: "pods/exec" });
  await expect(openDriver({ namespace: "default" })).rejects.toMatchObject({
    code: "SandboxFailed",
    message: expect.stringMatching(/^The server may not create configmaps in the cluster .*sandpiper doctor/),
  });
  const driver = await openDriver();
  await driver.start({ id: "least", spec: await driver.prepare(spec) });
  expect(await run(driver, "least", "echo works")).toMatchObject({ out: "works\n" });
  await driver.pause("least");
  await driver.resume("least");
  await driver.snapshot("least", "kept");
  await driver.stop("least");
  await driver.reap({ sandboxes: new Set(), snapshots: new Set() });
});

test("errors of a full quota, a full node and a missing storage class have the cluster's words", async () => {
  const driver = await openDriver();
  const prepared = await driver.prepare(spec);
  const quota = { name: "full", namespace };
  apply({
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: quota,
    spec: { hard: { persistentvolumeclaims: "0" } },
  });
  await expect(driver.start({ id: "full", spec: prepared })).rejects.toMatchObject({
    code: "SandboxFailed",
    message: expect.stringMatching(/^A quota of the cluster is full \(.*exceeded quota: full/),
  });
  apply({ apiVersion: "v1", kind: "ResourceQuota", metadata: quota, spec: { hard: { pods: "0" } } });
  await expect(driver.start({ id: "full", spec: prepared })).rejects.toThrow(
    /^A quota of the cluster is full/,
  );
  expect(await driver.list()).toEqual([]);
  kubectl("-n", namespace, "delete", "resourcequota", "full");
  const huge: PreparedSpec = { ...prepared, limits: { ...prepared.limits, memoryBytes: 2 ** 50 } };
  const small = await openDriver({ startTimeoutMs: 3_000 });
  await expect(small.start({ id: "huge", spec: huge })).rejects.toMatchObject({
    code: "SandboxFailed",
    message: expect.stringMatching(/^No node of the cluster takes the sandbox: .*Insufficient memory/),
  });
  expect(await driver.list()).toEqual([]);
  const classless = await openDriver({ kubeconfig: clusterKubeconfig(), storageClass: "none" });
  await expect(classless.start({ id: "x", spec: prepared })).rejects.toThrow(
    /no storage class none: set SANDPIPER_/,
  );
});

test("a node that lost its pod leaves a stopped sandbox with its files", async () => {
  const driver = await openDriver();
  const prepared = await driver.prepare(spec);
  await driver.start({ id: "lost", spec: prepared });
  await run(driver, "lost", "echo kept >file");
  const sleeper = await driver.exec("lost", { argv: ["sleep", "1000"] });
  kubectl("-n", namespace, "delete", "pod", "-l", "sandpiper/sandbox=lost", "--grace-period=0", "--force");
  // The first process may still be passing on the SIGTERM of the cluster.
  const { code, signal } = await sleeper.exit;
  expect([143, "SIGKILL"]).toContain(code ?? signal);
  await expect.poll(() => driver.list()).toEqual([{ id: "lost", state: "stopped" }]);
  // The helper answers until the node has killed the last process.
  const exec = () =>
    driver.exec("lost", { argv: ["true"] }).then(
      () => "runs",
      ({ code }) => code,
    );
  await expect.poll(exec).toBe("SandboxNotRunning");
  await driver.start({ id: "lost", spec: prepared });
  expect(await run(driver, "lost", "cat file")).toMatchObject({ out: "kept\n" });
  await driver.remove("lost");
});

test("the loss of the API server ends commands, and the sandbox and its listeners go on afterwards", async () => {
  const proxy = await startProxy();
  const token = kubectl("-n", namespace, "create", "token", "server").trim();
  const through = writeKubeconfig(join(dir, "proxy.conf"), token, `https://127.0.0.1:${proxy.port}`);
  // The certificate names the real address, and the client connects to the proxy.
  writeFileSync(
    through,
    readFileSync(through, "utf8").replace(
      "certificate-authority-data",
      `tls-server-name: kubernetes.default.svc, certificate-authority-data`,
    ),
  );
  const driver = await openDriver({ kubeconfig: through });
  await driver.start({ id: "away", spec: await driver.prepare(spec) });
  await driver.listen("away", 3128, (connection) => connection.end("proxy"));
  const ask = () => run(driver, "away", "busybox nc 127.0.0.1 3128 </dev/null").catch(() => ({ out: "" }));
  expect((await ask()).out).toBe("proxy");
  const sleeper = await driver.exec("away", { argv: ["sleep", "1000"] });
  proxy.cut();
  expect(await sleeper.exit).toEqual({ code: null, signal: "SIGKILL" });
  await expect(driver.exec("away", { argv: ["true"] })).rejects.toMatchObject({
    code: "SandboxFailed",
    message: expect.stringMatching(
      /^The Kubernetes API server at https:\/\/127\.0\.0\.1:\d+ cannot be reached/,
    ),
  });
  await proxy.restore();
  await expect.poll(async () => (await ask()).out).toBe("proxy");
  await driver.remove("away");
  proxy.cut();
});

/** Starts a TCP proxy to the API server. The test can cut the proxy off. */
async function startProxy() {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    const upstream = connectTcp(6443, "10.231.0.2");
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      sockets.add(one);
      one
        .on("error", () => other.destroy())
        .on("close", () => other.destroy())
        .pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    cut: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      sockets.clear();
    },
    restore: () => new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve)),
  };
}
