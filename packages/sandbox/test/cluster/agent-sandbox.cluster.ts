import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { PreparedSpec } from "../../src/driver.ts";
import { chooseKind, examineAgentSandbox } from "../../src/drivers/kubernetes/agent-sandbox.ts";
import { Cluster } from "../../src/drivers/kubernetes/cluster.ts";
import {
  KubernetesDriver,
  type KubernetesDriverOptions,
} from "../../src/drivers/kubernetes/kubernetes-driver.ts";
import { Registries } from "../../src/specs/registries.ts";
import { createHostSpec } from "../../src/specs/specs.ts";
import { run, suiteLimits } from "../driver-suite/context.ts";
import { describeClusterDriver } from "../support/cluster-driver.ts";
import {
  clusterImage,
  clusterKubeconfig,
  kubectl,
  loadClusterImage,
  writeKubeconfig,
} from "../support/cluster-image.ts";
import {
  agentSandboxTypes,
  installAgentSandbox,
  removeAgentSandbox,
  SandboxController,
} from "../support/sandbox-controller.ts";

/**
 * Sandboxes that are Sandbox objects of agent-sandbox: its real types, and a controller of the
 * tests in the place of its own.
 */

if (!agentSandboxTypes)
  console.log(
    "agent-sandbox: NOT RUN: set SANDPIPER_TEST_AGENT_SANDBOX to a folder with its CustomResourceDefinitions",
  );

const installation = "objects";
const label = `sandpiper/installation=${installation}`;
const nothing = { sandboxes: new Set<string>(), snapshots: new Set<string>() };

interface Listed {
  metadata: { name: string; uid: string; labels: Record<string, string> };
  spec: { operatingMode: string; containers: { name: string }[] };
}

const listed = (kind: string): Listed[] =>
  JSON.parse(kubectl("get", kind, "-l", label, "-o", "json")).items as Listed[];

describe.skipIf(!agentSandboxTypes)("Sandbox objects of agent-sandbox", () => {
  let controller: SandboxController;

  beforeAll(() => {
    installAgentSandbox();
    controller = new SandboxController();
  });

  afterAll(async () => {
    await controller.stop();
    removeAgentSandbox();
  });

  test("a cluster without the types has pods, and a server that needs the types says so", async () => {
    await controller.stop();
    removeAgentSandbox();
    try {
      const cluster = new Cluster({ kubeconfig: clusterKubeconfig() });
      await expect.poll(() => chooseKind(cluster, "auto")).toBe("pod");
      await expect(chooseKind(cluster, "sandbox")).rejects.toThrow(
        /^The cluster has no sandboxes of agents\.x-k8s\.io\/v1beta1: install agent-sandbox, or set /,
      );
    } finally {
      installAgentSandbox();
      controller = new SandboxController();
    }
  });

  describeClusterDriver("the kubernetes driver with Sandbox objects", { kind: "sandbox" });

  describe("a sandbox", () => {
    let dir: string;
    let spec: PreparedSpec;
    let driver: KubernetesDriver;
    const others: KubernetesDriver[] = [];

    async function openDriver(options: Partial<KubernetesDriverOptions> = {}): Promise<KubernetesDriver> {
      const registries = new Registries({ allowed: ["sandpiper.test"] });
      const kubeconfig = clusterKubeconfig();
      const one = new KubernetesDriver({
        ...{ dir, kubeconfig, installation, runtimeClass: "runc", registries },
        ...options,
      });
      await one.open();
      others.push(one);
      return one;
    }

    beforeAll(async () => {
      dir = mkdtempSync("/tmp/sandpiper-test-");
      loadClusterImage();
      driver = await openDriver();
      const root = { kind: "image" as const, reference: clusterImage };
      spec = await driver.prepare({
        ...createHostSpec({ ...suiteLimits, cpus: 0.5 }),
        root,
        user: "agent",
        capabilities: [],
      });
    });

    afterEach(async () => {
      for (const one of others.splice(1)) await one.close();
      await driver.reap(nothing);
      await expect.poll(() => ["sandboxes", "pods", "pvc"].flatMap(listed)).toEqual([]);
    });

    afterAll(async () => {
      await driver.close();
      rmSync(dir, { recursive: true, force: true });
    });

    test("is a Sandbox object where the cluster has the type, and is suspended while it is stopped", async () => {
      await driver.start({ id: "one", spec });
      const [object] = listed("sandboxes") as [Listed];
      expect(object.spec.operatingMode).toBe("Running");
      expect(object.metadata.labels).toMatchObject({ "sandpiper/sandbox": "one" });
      expect((await run(driver, "one", "echo kept >file; hostname")).out).toBe("one\n");
      await expect(driver.start({ id: "one", spec })).rejects.toThrow(/already running/);
      await driver.stop("one");
      expect(listed("pods")).toEqual([]);
      expect(listed("sandboxes")[0]).toMatchObject({
        metadata: { uid: object.metadata.uid },
        spec: { operatingMode: "Suspended" },
      });
      expect(await driver.list()).toEqual([{ id: "one", state: "stopped" }]);
      const other = await openDriver();
      const starts = await Promise.allSettled([driver, other].map((each) => each.start({ id: "one", spec })));
      expect(starts.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      expect((await run(other, "one", "cat file")).out).toBe("kept\n");
      await driver.remove("one");
      expect(listed("sandboxes")).toEqual([]);
    });

    test("is a pod for a server without all rights, and the check names each missing verb", async () => {
      kubectl("create", "serviceaccount", "limited");
      kubectl(
        "create",
        "role",
        "limited",
        "--verb=create,get,delete",
        "--resource=sandboxes.agents.x-k8s.io",
      );
      kubectl("create", "rolebinding", "limited", "--role=limited", "--serviceaccount=default:limited");
      try {
        const token = kubectl("create", "token", "limited").trim();
        const cluster = new Cluster({ kubeconfig: writeKubeconfig(join(dir, "limited.conf"), token) });
        expect(await examineAgentSandbox(cluster)).toEqual({
          isInstalled: true,
          missing: ["update", "patch"].map((verb) => ({ verb, resource: "sandboxes.agents.x-k8s.io" })),
        });
        expect(await chooseKind(cluster, "auto")).toBe("pod");
        expect(await chooseKind(cluster, "sandbox")).toBe("sandbox");
      } finally {
        for (const kind of ["rolebinding", "role", "serviceaccount"]) kubectl("delete", kind, "limited");
      }
    });

    test("gets a new pod with its files when the cluster loses the pod, and not the image's files again", async () => {
      await driver.start({ id: "lost", spec });
      await run(driver, "lost", "cd; rm .profile link; echo kept >file");
      const [old] = listed("pods") as [Listed];
      kubectl("delete", "pod", old.metadata.name, "--grace-period=0", "--force");
      await expect
        .poll(() => listed("pods").map(({ metadata }) => metadata.uid !== old.metadata.uid))
        .toEqual([true]);
      expect(listed("pods")[0]!.spec.containers.map(({ name }) => name)).toEqual(["sandbox"]);
      const look = () =>
        run(driver, "lost", "cd; ls -A").then(
          ({ out }) => out,
          () => "",
        );
      await expect.poll(look).toBe("file\n");
    });

    test("that was a pod before the cluster had the type stops, and starts as a Sandbox", async () => {
      const before = await openDriver({ kind: "pod" });
      await before.start({ id: "old", spec });
      await run(before, "old", "echo kept >file");
      expect(listed("sandboxes")).toEqual([]);
      await driver.stop("old");
      expect(listed("pods")).toEqual([]);
      await driver.start({ id: "old", spec });
      expect(listed("sandboxes")).toHaveLength(1);
      expect((await run(driver, "old", "cat file")).out).toBe("kept\n");
    });

    test("takes a warm Sandbox, which keeps its new name when the controller looks again", async () => {
      const warm = await openDriver({ warmPods: 1 });
      await warm.start({ id: "first", spec });
      await expect.poll(() => warm.waitingPods).toBe(1);
      const waiting = listed("sandboxes").find(({ metadata }) => metadata.labels["sandpiper/warm"])!;
      await warm.start({ id: "second", spec: { ...spec, env: { ...spec.env, LATER: "y" } } });
      const taken = () => listed("pods").find(({ metadata }) => metadata.name === waiting.metadata.name)!;
      expect(taken().metadata.labels).toMatchObject({ "sandpiper/sandbox": "second" });
      kubectl("annotate", "sandbox", waiting.metadata.name, "test/look=again");
      await expect.poll(() => warm.waitingPods).toBe(1);
      expect(taken().metadata.labels).not.toHaveProperty("sandpiper/warm");
      const other = await openDriver();
      expect((await run(other, "second", "echo $LATER")).out).toBe("y\n");
      await warm.close();
      await expect
        .poll(() => listed("sandboxes").map(({ metadata }) => metadata.labels["sandpiper/warm"]))
        .toEqual([undefined, undefined]);
    });

    test("that the controller may not run fails with the controller's reason, and leaves nothing", async () => {
      const quota = ["resourcequota", "no-cpu"];
      kubectl("create", "quota", "no-cpu", "--hard=pods=0");
      try {
        await expect(driver.start({ id: "full", spec })).rejects.toThrow(
          /^A quota of the cluster is full \(.*exceeded quota: no-cpu/,
        );
      } finally {
        kubectl("delete", ...quota);
      }
      await controller.stop();
      try {
        await expect(driver.start({ id: "silent", spec })).rejects.toThrow(
          /^The controller of agent-sandbox made no pod within 30 s/,
        );
      } finally {
        controller = new SandboxController();
      }
      expect(["sandboxes", "pods", "pvc"].flatMap(listed)).toEqual([]);
    });
  });
});
