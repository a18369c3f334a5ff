import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Exec, type V1Pod, Watch } from "@kubernetes/client-node";
import type { PreparedSpec } from "@sandpiper/sandbox/driver";
import { Cluster } from "@sandpiper/sandbox/drivers/kubernetes/cluster";
import { KubernetesDriver } from "@sandpiper/sandbox/drivers/kubernetes/kubernetes-driver";
import { Registries } from "@sandpiper/sandbox/specs/registries";
import { createHostSpec } from "@sandpiper/sandbox/specs/specs";
import {
  clusterImage,
  clusterKubeconfig,
  loadClusterImage,
} from "@sandpiper/sandbox/test/support/cluster-image";
import { type Figures, figures, inTurn, type Row, sample } from "./measure.ts";

const script = fileURLToPath(new URL("../scripts/cluster/cluster", import.meta.url));
const limits = { memoryBytes: 256 * 2 ** 20, pids: 128, cpus: 2, diskBytes: 2 ** 30 };
const container = "main";

/**
 * Measures the kubernetes driver beside bare pods and bare execs of the same client library, on the
 * test cluster. Returns no rows when the cluster is not built.
 */
export async function benchKubernetes(): Promise<Row[]> {
  if (!succeeds("is-built")) {
    console.error("left out: the cluster is not built; run scripts/cluster/cluster build.");
    return [];
  }
  const isOwn = !succeeds("status");
  if (isOwn) execFileSync(script, ["up"], { stdio: "ignore" });
  const dir = mkdtempSync("/tmp/sandpiper-bench-");
  const kubeconfig = clusterKubeconfig();
  const registries = new Registries({ allowed: ["sandpiper.test"] });
  const open = (warmPods: number, installation: string) =>
    new KubernetesDriver({ dir, kubeconfig, runtimeClass: "runc", registries, warmPods, installation });
  const driver = open(0, "bench");
  const warm = open(1, "warm");
  try {
    loadClusterImage();
    await driver.open();
    await warm.open();
    const image = { kind: "image" as const, reference: clusterImage };
    const spec = await driver.prepare({ ...createHostSpec(limits), root: image, user: "agent" });
    return await compare({ driver, warm }, spec, new Cluster({ kubeconfig }));
  } finally {
    for (const one of [driver, warm]) {
      for (const { id } of await one.list()) await one.remove(id);
      await one.close();
    }
    rmSync(dir, { recursive: true, force: true });
    if (isOwn) execFileSync(script, ["down"], { stdio: "ignore" });
  }
}

function succeeds(command: string): boolean {
  try {
    execFileSync(script, [command], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

async function compare(
  { driver, warm }: Record<"driver" | "warm", KubernetesDriver>,
  spec: PreparedSpec,
  cluster: Cluster,
): Promise<Row[]> {
  let count = 0;
  const run = async (id: string, by = driver) => {
    const { stdout, exit } = await by.exec(id, { argv: ["echo", "ready"] });
    stdout.resume();
    if ((await exit).code !== 0) throw new Error("the command failed");
  };
  // After this start the pool makes warm pods of the kind of `spec`.
  await warm.start({ id: "first", spec });
  const [bare, own, pooled] = await inTurn(
    10,
    [
      async () => {
        const name = `bare-${++count}`;
        const begin = performance.now();
        await startBarePod(cluster, name);
        await bareExec(cluster, name, ["echo", "ready"]);
        const taken = performance.now() - begin;
        await removeBarePod(cluster, name);
        return taken;
      },
      async () => {
        const id = `own-${++count}`;
        const begin = performance.now();
        await driver.start({ id, spec });
        await run(id);
        const taken = performance.now() - begin;
        await driver.remove(id);
        return taken;
      },
      async () => {
        while (warm.waitingPods === 0) await delay(50);
        const id = `warm-${++count}`;
        const begin = performance.now();
        await warm.start({ id, spec });
        await run(id, warm);
        const taken = performance.now() - begin;
        await warm.remove(id);
        return taken;
      },
    ],
    { warmUp: 1 },
  );
  await driver.start({ id: "steady", spec });
  await startBarePod(cluster, "steady");
  const timed = (work: () => Promise<void>) => async () => {
    const begin = performance.now();
    await work();
    return performance.now() - begin;
  };
  const [bareTrue, ownTrue] = await inTurn(
    50,
    [
      timed(() => bareExec(cluster, "steady", ["true"])),
      timed(async () => {
        const { stdout, exit } = await driver.exec("steady", { argv: ["true"] });
        stdout.resume();
        await exit;
      }),
    ],
    { block: 5 },
  );
  const stops = await sample(
    5,
    async () => {
      await driver.stop("steady");
      await driver.start({ id: "steady", spec });
      await run("steady");
    },
    0,
  );
  await removeBarePod(cluster, "steady");
  const [pods, starts, warmStarts] = [bare!, own!, pooled!].map(figures) as [Figures, Figures, Figures];
  const [execs, commands] = [bareTrue!, ownTrue!].map(figures) as [Figures, Figures];
  return [
    {
      name: "kubernetes driver: start to first output",
      unit: "ms",
      figures: starts,
      floor: { name: "bare pod + bare exec", figures: pods },
      target: "<= 1.3 x floor",
      met: starts.p50 <= 1.3 * pods.p50,
    },
    {
      name: "kubernetes driver: start from the warm pool to first output",
      unit: "ms",
      figures: warmStarts,
      floor: { name: "bare pod + bare exec", figures: pods },
      target: "< 150 ms",
      met: warmStarts.p50 < 150,
    },
    {
      name: "kubernetes driver: exec of true",
      unit: "ms",
      figures: commands,
      floor: { name: "bare exec over the API", figures: execs },
      target: "< 10 ms",
      met: commands.p50 < 10,
    },
    {
      name: "kubernetes driver: stop, start on its files, first output",
      unit: "ms",
      figures: figures(stops),
      target: "none",
      met: true,
    },
  ];
}

/** Starts a pod with the isolation of a sandbox, but without limits and volumes. */
async function startBarePod({ core, config, namespace }: Cluster, name: string): Promise<void> {
  const body: V1Pod = {
    metadata: { name },
    spec: {
      restartPolicy: "Never",
      runtimeClassName: "runc",
      hostUsers: false,
      automountServiceAccountToken: false,
      securityContext: { seccompProfile: { type: "RuntimeDefault" } },
      containers: [{ name: container, image: clusterImage, command: ["sleep", "3600"] }],
    },
  };
  const pod = await core.createNamespacedPod({ namespace, body });
  await new Promise<void>((resolve, reject) => {
    const path = `/api/v1/namespaces/${namespace}/pods`;
    const query = {
      fieldSelector: `metadata.name=${name}`,
      resourceVersion: pod.metadata!.resourceVersion!,
    };
    let stop = () => {};
    const look = (_type: string, now: V1Pod) => {
      if (!now.status?.containerStatuses?.[0]?.state?.running) return;
      stop();
      resolve();
    };
    new Watch(config)
      .watch(path, query, look, () => {})
      .then((controller) => {
        stop = () => controller.abort();
      }, reject);
  });
}

async function removeBarePod({ core, namespace }: Cluster, name: string): Promise<void> {
  await core.deleteNamespacedPod({ namespace, name, gracePeriodSeconds: 0 });
}

async function bareExec({ config, namespace }: Cluster, pod: string, command: string[]): Promise<void> {
  const query = new URLSearchParams({ container, stdout: "true", stderr: "true" });
  for (const word of command) query.append("command", word);
  const path = `/api/v1/namespaces/${namespace}/pods/${pod}/exec?${query}`;
  const socket = await new Exec(config).handler.connect(path, null, () => true);
  await new Promise<void>((resolve) => {
    socket.onclose = () => resolve();
  });
}
