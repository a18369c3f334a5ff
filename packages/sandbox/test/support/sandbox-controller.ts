import { setTimeout as delay } from "node:timers/promises";
import {
  PatchStrategy,
  setHeaderOptions,
  type V1ObjectMeta,
  type V1Pod,
  type V1PodSpec,
} from "@kubernetes/client-node";
import { sandboxApi } from "../../src/drivers/kubernetes/agent-sandbox.ts";
import { Cluster } from "../../src/drivers/kubernetes/cluster.ts";
import { clusterKubeconfig, kubectl } from "./cluster-image.ts";

/**
 * Folder with the definitions of agent-sandbox's types; undefined: the tests with these types do
 * not run.
 */
export const agentSandboxTypes = process.env.SANDPIPER_TEST_AGENT_SANDBOX;

/** Delay between two looks at all Sandboxes, ms. */
const lookMs = 30;
/** Annotation of a pod with the names of the labels, or annotations, that its template gave it. */
const propagated = {
  labels: "agents.x-k8s.io/propagated-labels",
  annotations: "agents.x-k8s.io/propagated-annotations",
} as const;

interface Condition {
  type: string;
  status: "True" | "False";
  reason: string;
  message: string;
  observedGeneration: number;
}

interface Sandbox {
  metadata: V1ObjectMeta;
  spec: {
    operatingMode: "Running" | "Suspended";
    podTemplate: { metadata?: Pick<V1ObjectMeta, "labels" | "annotations">; spec: V1PodSpec };
  };
  status?: { conditions?: (Condition & { lastTransitionTime: string })[] };
}

/** Gives the test cluster the types of agent-sandbox. */
export function installAgentSandbox(): void {
  kubectl("apply", "--server-side", "-f", agentSandboxTypes!);
  kubectl("wait", "--for=condition=Established", "crd/sandboxes.agents.x-k8s.io", "--timeout=60s");
}

/** Removes the types with all their objects. */
export function removeAgentSandbox(): void {
  kubectl("delete", "--ignore-not-found", "-f", agentSandboxTypes!);
}

/**
 * Does for the Sandboxes of a namespace what the controller of agent-sandbox does, as its types and
 * its source document: it makes the pod of a Sandbox, gives the pod the labels and annotations of
 * the template, removes the pod of a suspended Sandbox, and writes the conditions.
 */
export class SandboxController {
  readonly #cluster: Cluster;
  readonly #end = new AbortController();
  readonly #loop: Promise<void>;

  constructor(namespace = "default") {
    this.#cluster = new Cluster({ kubeconfig: clusterKubeconfig(), namespace });
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#end.abort();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { namespace, core, objects } = this.#cluster;
    while (!this.#end.signal.aborted) {
      await delay(lookMs);
      // The types may be removed meanwhile.
      const found = await objects
        .listNamespacedCustomObject({ ...sandboxApi, namespace })
        .catch(() => ({ items: [] }));
      const pods = await core.listNamespacedPod({ namespace });
      const byName = new Map(pods.items.map((pod) => [pod.metadata!.name!, pod]));
      for (const sandbox of (found as { items: Sandbox[] }).items)
        if (!sandbox.metadata.deletionTimestamp)
          await this.#reconcile(sandbox, byName.get(sandbox.metadata.name!)).catch(() => {});
    }
  }

  async #reconcile(sandbox: Sandbox, found: V1Pod | undefined): Promise<void> {
    const { metadata, spec } = sandbox;
    const pod = found?.metadata?.ownerReferences?.some(({ uid }) => uid === metadata.uid) ? found : undefined;
    let failure: string | undefined;
    try {
      if (spec.operatingMode === "Suspended") await this.#removePod(pod);
      else if (found) await this.#updatePod(sandbox, pod);
      else await this.#makePod(sandbox);
    } catch (error) {
      failure = `Error seen: ${readMessage(error)}`;
    }
    await this.#writeConditions(sandbox, pod, failure);
  }

  async #removePod(pod: V1Pod | undefined): Promise<void> {
    if (!pod || pod.metadata!.deletionTimestamp) return;
    const { namespace } = this.#cluster;
    await this.#cluster.core.deleteNamespacedPod({ namespace, name: pod.metadata!.name! });
  }

  async #makePod({ metadata, spec: { podTemplate } }: Sandbox): Promise<void> {
    const { namespace } = this.#cluster;
    const { labels, annotations } = fromTemplate(podTemplate);
    const owner = {
      ...{ apiVersion: `${sandboxApi.group}/${sandboxApi.version}`, kind: "Sandbox" },
      ...{ name: metadata.name!, uid: metadata.uid!, controller: true, blockOwnerDeletion: true },
    };
    const body = {
      metadata: { name: metadata.name!, labels, annotations, ownerReferences: [owner] },
      spec: podTemplate.spec,
    };
    await this.#cluster.core.createNamespacedPod({ namespace, body });
  }

  /** Gives the pod what the template has, and takes away what the template had. */
  async #updatePod({ spec: { podTemplate } }: Sandbox, pod: V1Pod | undefined): Promise<void> {
    if (!pod) throw new Error("the pod belongs to another controller");
    const wanted = fromTemplate(podTemplate);
    const { labels = {}, annotations = {} } = pod.metadata!;
    const change = {
      labels: difference(labels, wanted.labels, annotations[propagated.labels]),
      annotations: difference(annotations, wanted.annotations, annotations[propagated.annotations]),
    };
    if (Object.keys(change.labels).length + Object.keys(change.annotations).length === 0) return;
    await this.#cluster.core.patchNamespacedPod(
      { namespace: this.#cluster.namespace, name: pod.metadata!.name!, body: { metadata: change } },
      setHeaderOptions("Content-Type", PatchStrategy.MergePatch),
    );
  }

  async #writeConditions(sandbox: Sandbox, pod: V1Pod | undefined, failure?: string): Promise<void> {
    const { metadata, spec, status } = sandbox;
    const isSuspended = spec.operatingMode === "Suspended";
    const isReady = pod?.status?.conditions?.some((one) => one.type === "Ready" && one.status === "True");
    const condition = (type: string, isTrue: boolean, reason: string, message: string): Condition => ({
      ...{ type, status: isTrue ? "True" : "False", reason, message },
      observedGeneration: metadata.generation!,
    });
    const ready = failure
      ? condition("Ready", false, "ReconcilerError", failure)
      : isSuspended
        ? condition("Ready", false, "SandboxSuspended", "Sandbox is suspended")
        : isReady
          ? condition("Ready", true, "DependenciesReady", "Pod is Ready")
          : condition("Ready", false, "DependenciesNotReady", "Pod is not Ready");
    const suspended = condition("Suspended", isSuspended && !pod, "PodTerminated", "");
    const key = (list: Condition[]) =>
      list
        .map((one) => [one.type, one.status, one.reason, one.message, one.observedGeneration].join())
        .join();
    if (key(status?.conditions ?? []) === key([suspended, ready])) return;
    const lastTransitionTime = new Date().toISOString();
    const conditions = [suspended, ready].map((one) => ({ ...one, lastTransitionTime }));
    await this.#cluster.objects.patchNamespacedCustomObjectStatus(
      {
        ...{ ...sandboxApi, namespace: this.#cluster.namespace, name: metadata.name! },
        body: { status: { conditions } },
      },
      setHeaderOptions("Content-Type", PatchStrategy.MergePatch),
    );
  }
}

/** Labels and annotations that a template gives a pod. */
function fromTemplate({ metadata = {} }: Sandbox["spec"]["podTemplate"]) {
  const { labels = {}, annotations = {} } = metadata;
  const lists = {
    [propagated.labels]: Object.keys(labels).sort().join(","),
    [propagated.annotations]: Object.keys(annotations).sort().join(","),
  };
  return { labels, annotations: { ...annotations, ...lists } };
}

function difference(
  own: Record<string, string>,
  wanted: Record<string, string>,
  before = "",
): Record<string, string | null> {
  const gone = before.split(",").filter((name) => name in own && !(name in wanted));
  return {
    ...Object.fromEntries(gone.map((name) => [name, null])),
    ...Object.fromEntries(Object.entries(wanted).filter(([name, value]) => own[name] !== value)),
  };
}

function readMessage(error: unknown): string {
  const { body } = error as { body?: string };
  return body ? (JSON.parse(body) as { message: string }).message : String(error);
}
