import { PlatformError } from "@sandpiper/core/errors";
import { findMissingRights, type Right, sandboxRights } from "./access.ts";
import type { Cluster } from "./cluster.ts";

/** The type `Sandbox` of kubernetes-sigs/agent-sandbox. */
export const sandboxApi = { group: "agents.x-k8s.io", version: "v1beta1", plural: "sandboxes" } as const;

/**
 * Objects that run sandboxes. `auto`: Sandbox objects where the cluster has their type and the
 * server may use it, else pods.
 */
export type SandboxKind = "auto" | "pod" | "sandbox";

/** What the cluster offers for Sandbox objects. */
export interface AgentSandbox {
  isInstalled: boolean;
  /** Rights for Sandbox objects that the server lacks. */
  missing: Right[];
}

/** Asks whether the cluster has the type, and which rights the server lacks. */
export async function examineAgentSandbox(cluster: Cluster): Promise<AgentSandbox> {
  const { group, version, plural } = sandboxApi;
  const known = await cluster.request(
    "list the types of the cluster",
    () => cluster.objects.getAPIResources({ group, version }),
    { 403: () => undefined, 404: () => undefined },
  );
  if (!known?.resources.some(({ name }) => name === plural)) return { isInstalled: false, missing: [] };
  return { isInstalled: true, missing: await findMissingRights(cluster, sandboxRights) };
}

/** Chooses the objects that run sandboxes. Throws SandboxFailed when the cluster lacks the type. */
export async function chooseKind(cluster: Cluster, wanted: SandboxKind): Promise<"pod" | "sandbox"> {
  if (wanted === "pod") return "pod";
  const { isInstalled, missing } = await examineAgentSandbox(cluster);
  if (wanted === "auto") return isInstalled && missing.length === 0 ? "sandbox" : "pod";
  if (!isInstalled) throw new PlatformError("AgentSandboxMissing", sandboxApi);
  return "sandbox";
}
