import { setTimeout as delay } from "node:timers/promises";
import { PatchStrategy, setHeaderOptions, type V1Pod, Watch } from "@kubernetes/client-node";
import { PlatformError } from "@sandpiper/core/errors";
import type { Cluster } from "./cluster.ts";
import { labels, selectLabel } from "./labels.ts";
import { sandboxStatus } from "./pod-options.ts";
import { type PodProblem, podProblem } from "./pod-problems.ts";
import { SandboxObjects } from "./sandbox-objects.ts";
import { BarePods, type MetadataChange, type PodRequests, type SandboxPods } from "./sandbox-pods.ts";

export interface PodsOptions {
  /** Objects that run sandboxes. */
  kind: "pod" | "sandbox";
  /** Maximum time until a pod runs, ms. */
  startTimeoutMs?: number | undefined;
}

const defaultStartTimeoutMs = 300_000;
/** Maximum wait until a deleted pod has gone, ms. */
const deletionTimeoutMs = 60_000;
/** Maximum wait until the cluster notices that a pod has ended, ms. */
const endingTimeoutMs = 10_000;
/** Delay before the driver repeats a watch that has ended, ms. */
const rewatchDelayMs = 100;

/** The pods of an installation. */
export class Pods implements PodRequests {
  /** How the pods of sandboxes are made, changed, stopped and removed. */
  readonly sandboxes: SandboxPods;
  readonly #cluster: Cluster;
  readonly #installation: string;
  readonly #startTimeoutMs: number;

  constructor(
    cluster: Cluster,
    installation: string,
    { kind, startTimeoutMs = defaultStartTimeoutMs }: PodsOptions,
  ) {
    this.#cluster = cluster;
    this.#installation = installation;
    this.#startTimeoutMs = startTimeoutMs;
    this.sandboxes = kind === "sandbox" ? new SandboxObjects(cluster, this) : new BarePods(this);
  }

  /** Creates a pod; undefined when a pod of that name exists. */
  async create(body: V1Pod): Promise<V1Pod | undefined> {
    const { namespace } = this.#cluster;
    return await this.#cluster.request<V1Pod, undefined>(
      "create pods",
      () => this.#cluster.core.createNamespacedPod({ namespace, body }),
      { 409: () => undefined },
    );
  }

  async find(name: string): Promise<V1Pod | undefined> {
    const { namespace } = this.#cluster;
    return await this.#cluster.request<V1Pod, undefined>(
      "get pods",
      () => this.#cluster.core.readNamespacedPod({ namespace, name }),
      { 404: () => undefined },
    );
  }

  async list(label: string = labels.sandbox): Promise<V1Pod[]> {
    const { namespace } = this.#cluster;
    const labelSelector = selectLabel(this.#installation, label);
    const found = await this.#cluster.request("list pods", () =>
      this.#cluster.core.listNamespacedPod({ namespace, labelSelector }),
    );
    return found.items;
  }

  /** Sets labels and annotations of a pod; the value null removes an entry. */
  async change(name: string, metadata: MetadataChange): Promise<void> {
    const { namespace } = this.#cluster;
    await this.#cluster.request("patch pods", () =>
      this.#cluster.core.patchNamespacedPod(
        { namespace, name, body: { metadata } },
        setHeaderOptions("Content-Type", PatchStrategy.MergePatch),
      ),
    );
  }

  /**
   * Waits until a new pod runs or has ended. Throws SandboxFailed or SandboxSpecUnusable with the
   * cluster's reason when the pod cannot run, and the reason of `signal` when it aborts.
   */
  async waitUntilStarted(created: V1Pod, signal?: AbortSignal): Promise<V1Pod> {
    let last: PodProblem | undefined;
    const look = (pod: V1Pod | undefined) => {
      if (!pod) throw new PlatformError("PodRemoved");
      const { phase } = pod.status ?? {};
      if (phase === "Succeeded" || phase === "Failed") return pod;
      if (sandboxStatus(pod)?.state?.running) return pod;
      last = podProblem(pod);
      if (last?.isFinal) throw last.error;
      return undefined;
    };
    const started = await this.#watch(created, this.#startTimeoutMs, look, signal);
    if (started) return started;
    throw last?.error ?? new PlatformError("PodStartTimeout", { seconds: this.#startTimeoutMs / 1_000 });
  }

  /** Waits until a pod has ended by itself. */
  async waitUntilEnded(created: V1Pod): Promise<V1Pod> {
    const ended = await this.#watch(created, this.#startTimeoutMs, (pod) => {
      if (!pod) throw new PlatformError("PodRemoved");
      const { phase } = pod.status ?? {};
      if (phase === "Succeeded" || phase === "Failed") return pod;
      const problem = podProblem(pod);
      if (problem?.isFinal) throw problem.error;
      return undefined;
    });
    if (ended) return ended;
    throw new PlatformError("PodStartTimeout", { seconds: this.#startTimeoutMs / 1_000 });
  }

  /**
   * Waits `endingTimeoutMs` for the end of a pod, because the cluster reports the end of the first
   * process with a delay. Returns the ended pod, or undefined when the pod goes on. Returns the
   * given pod when the pod was removed.
   */
  async findEnded(pod: V1Pod): Promise<V1Pod | undefined> {
    return await this.#watch(pod, endingTimeoutMs, (now) => {
      const { phase } = now?.status ?? {};
      if (!now) return pod;
      return phase === "Succeeded" || phase === "Failed" ? now : undefined;
    });
  }

  /**
   * Removes a pod and waits until the pod has gone. Without `graceSeconds` the cluster kills its
   * processes at once. Ignores an unknown pod.
   */
  async remove(name: string, graceSeconds = 0): Promise<void> {
    const { namespace } = this.#cluster;
    const pod = await this.find(name);
    if (!pod) return;
    const preconditions = { uid: pod.metadata!.uid! };
    await this.#cluster.request(
      "delete pods",
      () =>
        this.#cluster.core.deleteNamespacedPod({
          namespace,
          name,
          body: { gracePeriodSeconds: graceSeconds, preconditions },
        }),
      { 404: () => undefined, 409: () => undefined },
    );
    await this.awaitGone(pod);
  }

  /** Waits until a pod has gone. Throws SandboxFailed after a minute. */
  async awaitGone(pod: V1Pod): Promise<void> {
    const gone = await this.#watch(pod, deletionTimeoutMs, (now) =>
      now && now.metadata?.uid === pod.metadata!.uid ? undefined : true,
    );
    if (!gone) throw new PlatformError("PodNotRemoved", { seconds: deletionTimeoutMs / 1_000 });
  }

  /**
   * Calls `look` with each state of a pod (undefined: the pod has gone) until `look` returns a
   * value. Returns undefined after the timeout. Rejects with what `look` throws, and when `signal`
   * aborts.
   */
  async #watch<T>(
    pod: V1Pod,
    timeoutMs: number,
    look: (pod: V1Pod | undefined) => T | undefined,
    signal?: AbortSignal,
  ): Promise<T | undefined> {
    const name = pod.metadata!.name!;
    const end = Date.now() + timeoutMs;
    for (let version = pod.metadata!.resourceVersion; Date.now() < end; ) {
      signal?.throwIfAborted();
      const within = AbortSignal.timeout(end - Date.now());
      const until = signal ? AbortSignal.any([within, signal]) : within;
      const found = await this.#watchOnce(name, version, until, look);
      if (found !== undefined) return found;
      // The API server has ended the watch, or no longer has the version from which it begins.
      const current = await this.find(name);
      const result = look(current);
      if (result !== undefined) return result;
      version = current?.metadata?.resourceVersion;
      await delay(rewatchDelayMs);
    }
    return undefined;
  }

  #watchOnce<T>(
    name: string,
    resourceVersion: string | undefined,
    until: AbortSignal,
    look: (pod: V1Pod | undefined) => T | undefined,
  ): Promise<T | undefined> {
    const path = `/api/v1/namespaces/${this.#cluster.namespace}/pods`;
    const query = { fieldSelector: `metadata.name=${name}`, ...(resourceVersion ? { resourceVersion } : {}) };
    return new Promise((resolve, reject) => {
      let abort: AbortController | undefined;
      let isSettled = false;
      const settle = (work: () => void) => {
        if (isSettled) return;
        isSettled = true;
        until.removeEventListener("abort", stop);
        abort?.abort();
        work();
      };
      const stop = () => settle(() => resolve(undefined));
      until.addEventListener("abort", stop);
      const onEvent = (type: string, pod: V1Pod) => {
        if (isSettled || type === "BOOKMARK" || type === "ERROR") return;
        try {
          const found = look(type === "DELETED" ? undefined : pod);
          if (found !== undefined) settle(() => resolve(found));
        } catch (error) {
          settle(() => reject(error));
        }
      };
      new Watch(this.#cluster.config)
        .watch(path, query, onEvent, () => settle(() => resolve(undefined)))
        .then(
          (controller) => {
            abort = controller;
            if (isSettled) controller.abort();
          },
          (error: unknown) => settle(() => reject(this.#cluster.unreachable(error))),
        );
    });
  }
}
