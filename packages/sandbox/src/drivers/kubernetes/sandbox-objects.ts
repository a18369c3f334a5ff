import { setTimeout as delay } from "node:timers/promises";
import {
  PatchStrategy,
  setHeaderOptions,
  type V1ObjectMeta,
  type V1Pod,
  type V1PodSpec,
} from "@kubernetes/client-node";
import { PlatformError } from "@sandpiper/core/errors";
import { sandboxApi } from "./agent-sandbox.ts";
import type { Cluster } from "./cluster.ts";
import { containerName } from "./pod-options.ts";
import type { MetadataChange, PodRequests, SandboxPods } from "./sandbox-pods.ts";

/** Maximum wait until the controller has made the pod of a Sandbox, ms. */
const podTimeoutMs = 30_000;
/** Maximum wait until a deleted Sandbox has gone, ms. */
const deletionTimeoutMs = 60_000;
/** Delay between two looks at a Sandbox and its pod, ms. */
const pollMs = 25;

/** The fields of a `Sandbox` of agent-sandbox that the driver uses. */
interface SandboxObject {
  apiVersion: string;
  kind: "Sandbox";
  metadata: V1ObjectMeta;
  spec: {
    /** `Suspended`: the controller removes the pod, and keeps the object. */
    operatingMode: "Running" | "Suspended";
    service: boolean;
    podTemplate: { metadata: Pick<V1ObjectMeta, "labels" | "annotations">; spec: V1PodSpec };
  };
  status?: { conditions?: { type: string; reason: string; message: string }[] };
}

const { group, version, plural } = sandboxApi;

/**
 * Sandboxes are `Sandbox` objects, and the controller of agent-sandbox makes their pods. The pod of
 * a Sandbox has the name of the Sandbox. The volume claims stay with the driver.
 */
export class SandboxObjects implements SandboxPods {
  readonly #cluster: Cluster;
  readonly #pods: PodRequests;

  constructor(cluster: Cluster, pods: PodRequests) {
    this.#cluster = cluster;
    this.#pods = pods;
  }

  async make(pod: V1Pod): Promise<V1Pod | undefined> {
    const { name, labels, annotations } = pod.metadata!;
    const spec = pod.spec!;
    const body: SandboxObject = {
      apiVersion: `${group}/${version}`,
      kind: "Sandbox",
      metadata: { name: name!, labels: labels! },
      spec: {
        operatingMode: "Running",
        service: false,
        podTemplate: { metadata: { labels: labels!, annotations: annotations! }, spec },
      },
    };
    const made = (await this.#create(body)) ?? (await this.#restart(body));
    if (!made) return undefined;
    try {
      const found = await this.#awaitPod(made);
      // The container that copies the image's files must not run again when the cluster loses the
      // pod and the controller makes another one.
      const containers = spec.containers.filter((one) => one.name === containerName);
      if (containers.length < spec.containers.length)
        await this.#patch(name!, { spec: { podTemplate: { spec: { containers } } } });
      return found;
    } catch (error) {
      await this.remove(name!).catch(() => {});
      throw error;
    }
  }

  async change(name: string, metadata: MetadataChange): Promise<void> {
    const { labels = {} } = metadata;
    // The controller gives its pod the labels and annotations of the template.
    await Promise.all([
      this.#patch(name, { metadata: { labels }, spec: { podTemplate: { metadata } } }),
      this.#pods.change(name, metadata),
    ]);
  }

  /** The controller ends the pod with the grace period of the pod. */
  async stop(name: string, graceSeconds?: number): Promise<void> {
    const pod = await this.#pods.find(name);
    const isKnown = await this.#patch(name, { spec: { operatingMode: "Suspended" } });
    // A pod without a Sandbox was made before the cluster had the type.
    if (!isKnown) await this.#pods.remove(name, graceSeconds);
    else if (pod) await this.#pods.awaitGone(pod);
  }

  async remove(name: string): Promise<void> {
    const { namespace } = this.#cluster;
    await this.#cluster.request(
      "delete sandboxes.agents.x-k8s.io",
      () =>
        this.#cluster.objects.deleteNamespacedCustomObject({
          ...{ group, version, plural, namespace, name },
          // The controller makes no pod for an object that waits for the end of its pod.
          propagationPolicy: "Foreground",
        }),
      { 404: () => undefined },
    );
    await this.#pods.remove(name);
    for (const end = Date.now() + deletionTimeoutMs; await this.#find(name); await delay(pollMs))
      if (Date.now() > end) throw new PlatformError("PodNotRemoved", { seconds: deletionTimeoutMs / 1_000 });
  }

  /** Creates a Sandbox; undefined when one of the name exists. */
  async #create(body: SandboxObject): Promise<SandboxObject | undefined> {
    const { namespace } = this.#cluster;
    return await this.#cluster.request<SandboxObject, undefined>(
      "create sandboxes.agents.x-k8s.io",
      () => this.#cluster.objects.createNamespacedCustomObject({ group, version, plural, namespace, body }),
      { 409: () => undefined },
    );
  }

  /** Runs a suspended Sandbox again; undefined when it is not suspended. */
  async #restart(body: SandboxObject): Promise<SandboxObject | undefined> {
    const { namespace } = this.#cluster;
    const name = body.metadata.name!;
    // A conflict repeats the attempt, because the controller may have changed the status only.
    for (;;) {
      const old = await this.#find(name);
      if (old?.spec.operatingMode !== "Suspended" || old.metadata.deletionTimestamp) return undefined;
      const metadata = { ...body.metadata, resourceVersion: old.metadata.resourceVersion! };
      const made = await this.#cluster.request<SandboxObject, "again">(
        "update sandboxes.agents.x-k8s.io",
        () =>
          this.#cluster.objects.replaceNamespacedCustomObject({
            ...{ group, version, plural, namespace, name },
            body: { ...body, metadata },
          }),
        { 404: () => "again", 409: () => "again" },
      );
      if (made !== "again") return made;
    }
  }

  /** Waits until the controller has made the pod. Throws SandboxFailed with its reason. */
  async #awaitPod({ metadata: { name, uid } }: SandboxObject): Promise<V1Pod> {
    let reason: string | undefined;
    for (const end = Date.now() + podTimeoutMs; Date.now() < end; await delay(pollMs)) {
      const pod = await this.#pods.find(name!);
      const isOwn = pod?.metadata?.ownerReferences?.some((owner) => owner.uid === uid);
      if (pod && isOwn && !pod.metadata?.deletionTimestamp) return pod;
      const now = await this.#find(name!);
      if (!now || now.metadata.deletionTimestamp) throw new PlatformError("PodRemoved");
      const failed = now.status?.conditions?.find((one) => one.reason === "ReconcilerError");
      reason = failed?.message;
      if (reason && /exceeded quota/.test(reason)) throw new PlatformError("ClusterQuotaFull", { reason });
    }
    if (reason) throw new PlatformError("PodNotStarted", { reason });
    throw new PlatformError("AgentSandboxSilent", { seconds: podTimeoutMs / 1_000 });
  }

  async #find(name: string): Promise<SandboxObject | undefined> {
    const { namespace } = this.#cluster;
    return await this.#cluster.request<SandboxObject, undefined>(
      "get sandboxes.agents.x-k8s.io",
      () => this.#cluster.objects.getNamespacedCustomObject({ group, version, plural, namespace, name }),
      { 404: () => undefined },
    );
  }

  /** Returns false for an unknown Sandbox. */
  async #patch(name: string, body: object): Promise<boolean> {
    const { namespace } = this.#cluster;
    return await this.#cluster.request(
      "patch sandboxes.agents.x-k8s.io",
      async () => {
        await this.#cluster.objects.patchNamespacedCustomObject(
          { group, version, plural, namespace, name, body },
          setHeaderOptions("Content-Type", PatchStrategy.MergePatch),
        );
        return true;
      },
      { 404: () => false },
    );
  }
}
