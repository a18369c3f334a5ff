import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { KubernetesDriver } from "../../src/drivers/kubernetes/kubernetes-driver.ts";
import { type Capability, usualCapabilities } from "../../src/specs/capabilities.ts";
import { Registries } from "../../src/specs/registries.ts";
import { createHostSpec } from "../../src/specs/specs.ts";
import { run, suiteLimits } from "../driver-suite/context.ts";
import {
  clusterImage,
  clusterKubeconfig,
  kubectl,
  kubectlAside,
  loadClusterImage,
} from "../support/cluster-image.ts";

/** Which level of the pod security standards the pods of sandboxes meet, as the API server says. */

const namespace = "security";
let dir: string;
let driver: KubernetesDriver;

beforeAll(async () => {
  dir = mkdtempSync("/tmp/sandpiper-test-");
  loadClusterImage();
  const labels = { "pod-security.kubernetes.io/enforce": "baseline" };
  const path = join(dir, "namespace.json");
  writeFileSync(
    path,
    JSON.stringify({ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace, labels } }),
  );
  kubectl("apply", "-f", path);
  const registries = new Registries({ allowed: ["sandpiper.test"] });
  driver = new KubernetesDriver({
    ...{ dir, kubeconfig: clusterKubeconfig(), namespace, runtimeClass: "runc", registries },
  });
  await driver.open();
});

afterAll(async () => {
  await driver.reap({ sandboxes: new Set(), snapshots: new Set() });
  await driver.close();
  kubectl("delete", "namespace", namespace, "--wait=false");
  rmSync(dir, { recursive: true, force: true });
});

/** What the API server has against the pods of the namespace at a level of the standards. */
async function violations(level: "baseline" | "restricted"): Promise<string[]> {
  const label = `pod-security.kubernetes.io/enforce=${level}`;
  const { stderr } = await kubectlAside(
    ...["label", "namespace", namespace, label, "--overwrite", "--dry-run=server"],
  );
  const found = /^Warning: sandpiper-\S+(?: \(and \d+ other pods?\))?: (.*)$/m.exec(stderr);
  return found ? found[1]!.split(", ").toSorted() : [];
}

async function start(id: string, capabilities: readonly Capability[]): Promise<void> {
  const root = { kind: "image" as const, reference: clusterImage };
  const spec = await driver.prepare({ ...createHostSpec(suiteLimits), root, user: "agent", capabilities });
  await driver.start({ id, spec });
}

test("sandboxes meet baseline, and miss restricted by the helper's root and capabilities only", async () => {
  await start("without", []);
  expect(await violations("baseline")).toEqual([]);
  expect(await violations("restricted")).toEqual([
    "runAsNonRoot != true",
    "runAsUser=0",
    "unrestricted capabilities",
  ]);
  const status = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -s '\\t' ' '";
  const none = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(
    (name) => `${name}: ${"0".repeat(16)}\n`,
  );
  expect((await run(driver, "without", `id -u; ${status}`)).out).toBe(
    `1000\n${none.join("")}NoNewPrivs: 1\nSeccomp: 2\n`,
  );
  await driver.remove("without");
});

test("capabilities of a spec let programs gain rights, which restricted forbids too", async () => {
  await start("with", usualCapabilities);
  expect(await violations("baseline")).toEqual([]);
  expect(await violations("restricted")).toEqual([
    "allowPrivilegeEscalation != false",
    "runAsNonRoot != true",
    "runAsUser=0",
    "unrestricted capabilities",
  ]);
});
