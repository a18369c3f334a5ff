import type { Cluster } from "./cluster.ts";

/** A right that the driver needs. */
export interface Right {
  verb: string;
  /** Resource as `kubectl auth can-i` takes it, such as `pods/exec`. */
  resource: string;
  /** The driver works without the right, but slower. */
  isOptional?: true;
}

const needed: Readonly<Record<string, readonly string[]>> = {
  pods: ["create", "get", "list", "watch", "patch", "delete"],
  // An exec over WebSocket needs `create` or `get`, depending on the version of the cluster.
  "pods/exec": ["create", "get"],
  persistentvolumeclaims: ["create", "get", "list", "patch", "delete"],
  configmaps: ["create"],
  "networkpolicies.networking.k8s.io": ["create"],
};

/** All rights of the driver. They are rights in its namespace, except for `storageclasses`. */
export const neededRights: readonly Right[] = [
  ...Object.entries(needed).flatMap(([resource, verbs]) => verbs.map((verb) => ({ verb, resource }))),
  { verb: "list", resource: "storageclasses.storage.k8s.io", isOptional: true },
];

/** Additional rights of a driver whose sandboxes are Sandbox objects of agent-sandbox. */
export const sandboxRights: readonly Right[] = ["create", "get", "update", "patch", "delete"].map((verb) => ({
  verb,
  resource: "sandboxes.agents.x-k8s.io",
}));

/** Asks the API server which of the rights the server lacks. Throws SandboxFailed. */
export async function findMissingRights(cluster: Cluster, rights = neededRights): Promise<Right[]> {
  const allowed = await Promise.all(rights.map((right) => isAllowed(cluster, right)));
  return rights.filter((_, index) => !allowed[index]);
}

async function isAllowed(cluster: Cluster, { verb, resource }: Right): Promise<boolean> {
  const [name = "", subresource] = resource.split("/");
  const [plural = "", ...group] = name.split(".");
  const isOfCluster = plural === "storageclasses";
  const attributes = {
    verb,
    resource: plural,
    group: group.join("."),
    ...(subresource ? { subresource } : {}),
    ...(isOfCluster ? {} : { namespace: cluster.namespace }),
  };
  const review = await cluster.request("ask for its rights", () =>
    cluster.authorization.createSelfSubjectAccessReview({
      body: { spec: { resourceAttributes: attributes } },
    }),
  );
  return review.status?.allowed === true;
}
