import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { errorText } from "@sandpiper/core/errors";
import { findMissingRights, type Right } from "@sandpiper/sandbox/drivers/kubernetes/access";
import { examineAgentSandbox, type SandboxKind } from "@sandpiper/sandbox/drivers/kubernetes/agent-sandbox";
import { Cluster } from "@sandpiper/sandbox/drivers/kubernetes/cluster";
import { loadHelper } from "@sandpiper/sandbox/drivers/kubernetes/helper-program";
import type { Config } from "../config/config.ts";
import { type DoctorFinding, finding } from "./finding.ts";

/**
 * Checks that the cluster answers, that it gives the server its rights, and that the helper
 * compiles.
 */
export async function examineCluster({ kubernetes }: Config): Promise<DoctorFinding[]> {
  const findings = [await tryHelper()];
  try {
    const cluster = new Cluster(kubernetes);
    const missing = await findMissingRights(cluster);
    findings.push(finding("cluster", true, true, `${cluster.address} answers`));
    const [lacked, wanted] = [false, true].map((isOptional) =>
      listRights(missing.filter((right) => (right.isOptional ?? false) === isOptional)),
    ) as [string, string];
    findings.push(
      finding(
        "cluster rights",
        true,
        lacked === "",
        lacked === "" ? "all that are needed" : `missing: ${lacked}`,
        `Give the missing rights to the server in the namespace ${cluster.namespace} with a Role (docs/team/kubernetes.md).`,
      ),
    );
    if (wanted)
      findings.push(
        finding(
          "cluster rights for speed",
          false,
          false,
          `missing: ${wanted}`,
          "Give the missing right to the server with a ClusterRole, for quicker starts (docs/team/kubernetes.md).",
        ),
      );
    findings.push(...(await examineSandboxObjects(cluster, kubernetes.kind)));
  } catch (error) {
    findings.push(finding("cluster", true, false, "cannot be used", errorText(error)));
  }
  return findings;
}

/** Checks whether sandboxes can be Sandbox objects of agent-sandbox, unless they are pods. */
async function examineSandboxObjects(cluster: Cluster, kind: SandboxKind): Promise<DoctorFinding[]> {
  if (kind === "pod") return [];
  const { isInstalled, missing } = await examineAgentSandbox(cluster);
  const isNeeded = kind === "sandbox";
  if (!isInstalled) {
    const fix = "Install agent-sandbox in the cluster, or set SANDPIPER_KUBERNETES_KIND=pod.";
    const detail = "the cluster has no such type, so sandboxes are pods";
    return [
      isNeeded
        ? finding("Sandbox objects", true, false, "the cluster has no such type", fix)
        : finding("Sandbox objects", false, true, detail),
    ];
  }
  const isUsed = missing.length === 0;
  const lacked = `missing: ${listRights(missing)}${isNeeded ? "" : "; sandboxes are pods"}`;
  return [
    finding(
      "Sandbox objects",
      isNeeded,
      isUsed,
      isUsed ? "the controller of agent-sandbox makes the pods" : lacked,
      `Give the missing rights to the server in the namespace ${cluster.namespace}, or set SANDPIPER_KUBERNETES_KIND=pod (docs/team/kubernetes.md).`,
    ),
  ];
}

/** Writes rights as `create, get of pods; …`. */
function listRights(rights: Right[]): string {
  const resources = [...new Set(rights.map(({ resource }) => resource))];
  const verbs = (name: string) => rights.flatMap(({ verb, resource }) => (resource === name ? verb : []));
  return resources.map((name) => `${verbs(name).join(", ")} of ${name}`).join("; ");
}

/** Checks that the helper of the pods compiles. */
async function tryHelper(): Promise<DoctorFinding> {
  const dir = await mkdtemp(join(tmpdir(), "sandpiper-doctor-"));
  try {
    await loadHelper(dir);
    return finding("helper of the pods", true, true, "compiles");
  } catch (error) {
    return finding("helper of the pods", true, false, "does not compile", errorText(error));
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
