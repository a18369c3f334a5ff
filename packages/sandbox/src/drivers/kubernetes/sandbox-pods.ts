import type { V1Pod } from "@kubernetes/client-node";

/** Changes of labels and annotations; the value null removes an entry. */
export type MetadataChange = Partial<Record<"labels" | "annotations", Record<string, string | null>>>;

/** How the pod of a sandbox is made, changed, stopped and removed. */
export interface SandboxPods {
  /** Makes a pod. Returns undefined when the sandbox has a pod already. */
  make(pod: V1Pod): Promise<V1Pod | undefined>;
  /** Changes labels and annotations for as long as the sandbox runs. */
  change(name: string, metadata: MetadataChange): Promise<void>;
  /** Ends the pod. `make` can make it again. Ignores an unknown pod. */
  stop(name: string, graceSeconds?: number): Promise<void>;
  /** Ends the pod at once, and removes what could make it again. Ignores an unknown pod. */
  remove(name: string): Promise<void>;
}

/** The requests about pods with which a sandbox's pod is made, changed and removed. */
export interface PodRequests {
  create(pod: V1Pod): Promise<V1Pod | undefined>;
  find(name: string): Promise<V1Pod | undefined>;
  change(name: string, metadata: MetadataChange): Promise<void>;
  remove(name: string, graceSeconds?: number): Promise<void>;
  /** Waits until a pod has gone. */
  awaitGone(pod: V1Pod): Promise<void>;
}

/** The driver makes the pods itself. */
export class BarePods implements SandboxPods {
  readonly #pods: PodRequests;

  constructor(pods: PodRequests) {
    this.#pods = pods;
  }

  async make(pod: V1Pod): Promise<V1Pod | undefined> {
    return await this.#pods.create(pod);
  }

  async change(name: string, metadata: MetadataChange): Promise<void> {
    await this.#pods.change(name, metadata);
  }

  async stop(name: string, graceSeconds?: number): Promise<void> {
    await this.#pods.remove(name, graceSeconds);
  }

  async remove(name: string): Promise<void> {
    await this.#pods.remove(name);
  }
}
