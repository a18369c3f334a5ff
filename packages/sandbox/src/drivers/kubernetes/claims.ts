import { setTimeout as delay } from "node:timers/promises";
import { PatchStrategy, setHeaderOptions, type V1PersistentVolumeClaim } from "@kubernetes/client-node";
import { PlatformError } from "@sandpiper/core/errors";
import type { Cluster } from "./cluster.ts";
import { annotations, labels, selectLabel } from "./labels.ts";
import type { MountedFolder } from "./volume-folders.ts";

/** Maximum wait until a claim has its volume, ms. */
const bindTimeoutMs = 120_000;
/** Maximum wait until an old claim of the same name is deleted, ms. */
const deletionTimeoutMs = 60_000;
/** Delay between two looks at a claim, ms. */
const pollMs = 25;

/** Facts about a claim that a later start needs. The annotations of the claim contain them. */
export interface ClaimFacts {
  image: string;
  folders: MountedFolder[];
}

export interface ClaimInput {
  name: string;
  labels: Record<string, string>;
  facts: ClaimFacts;
  bytes: number;
}

/** The persistent volume claims of an installation, one for each sandbox and each snapshot. */
export class Claims {
  readonly #cluster: Cluster;
  readonly #installation: string;
  readonly #storageClass: string | undefined;
  #bindsAtOnce: boolean | undefined;

  /** `storageClass`: name of the class; undefined for the default class of the cluster. */
  constructor(cluster: Cluster, installation: string, storageClass: string | undefined) {
    this.#cluster = cluster;
    this.#installation = installation;
    this.#storageClass = storageClass;
  }

  /**
   * Waits until an old claim of the name is deleted, and creates a claim. Then waits for the volume
   * where the storage class makes volumes before pods.
   */
  async create({ name, labels: own, facts, bytes }: ClaimInput): Promise<void> {
    const { namespace } = this.#cluster;
    const body: V1PersistentVolumeClaim = {
      metadata: {
        name,
        labels: { ...own, [labels.installation]: this.#installation },
        annotations: { [annotations.facts]: JSON.stringify(facts) },
      },
      spec: {
        accessModes: ["ReadWriteOnce"],
        resources: { requests: { storage: String(bytes) } },
        ...(this.#storageClass ? { storageClassName: this.#storageClass } : {}),
      },
    };
    const isBoundAtOnce = await this.#isBoundAtOnce();
    for (const end = Date.now() + deletionTimeoutMs; ; await delay(pollMs)) {
      const created = await this.#cluster.request<V1PersistentVolumeClaim, undefined>(
        "create persistentvolumeclaims",
        () => this.#cluster.core.createNamespacedPersistentVolumeClaim({ namespace, body }),
        { 409: () => undefined },
      );
      if (created) break;
      if (Date.now() > end) throw new PlatformError("ClaimExists", { name });
    }
    if (!isBoundAtOnce) return;
    try {
      await this.#waitUntilBound(name);
    } catch (error) {
      await this.remove(name).catch(() => {});
      throw error;
    }
  }

  /** Finds a claim; undefined for an unknown claim and for a claim that is being deleted. */
  async find(name: string): Promise<V1PersistentVolumeClaim | undefined> {
    const claim = await this.#read(name);
    return claim?.metadata?.deletionTimestamp ? undefined : claim;
  }

  /** Finds the claim of a sandbox; undefined for an unknown sandbox. */
  async findSandbox(id: string): Promise<V1PersistentVolumeClaim | undefined> {
    const [claim] = await this.list(labels.sandbox, id);
    return claim;
  }

  /** Lists the claims with a label (and value), without claims that are being deleted. */
  async list(label: string, value?: string): Promise<V1PersistentVolumeClaim[]> {
    const { namespace } = this.#cluster;
    const labelSelector = selectLabel(this.#installation, label, value);
    const found = await this.#cluster.request("list persistentvolumeclaims", () =>
      this.#cluster.core.listNamespacedPersistentVolumeClaim({ namespace, labelSelector }),
    );
    return found.items.filter(({ metadata }) => !metadata?.deletionTimestamp);
  }

  /** Sets labels of a claim; the value null removes a label. */
  async label(name: string, own: Record<string, string | null>): Promise<void> {
    const { namespace } = this.#cluster;
    await this.#cluster.request("patch persistentvolumeclaims", () =>
      this.#cluster.core.patchNamespacedPersistentVolumeClaim(
        { namespace, name, body: { metadata: { labels: own } } },
        setHeaderOptions("Content-Type", PatchStrategy.MergePatch),
      ),
    );
  }

  /**
   * Sets labels if `isWanted` accepts the present labels, in one atomic step; the value null
   * removes a label. Returns false when `isWanted` refuses, and for an unknown claim. `last`: the
   * claim from an earlier look, which saves a request when the claim has not changed since.
   */
  async exchange(
    name: string,
    isWanted: (own: Record<string, string>) => boolean,
    own: Record<string, string | null>,
    last?: V1PersistentVolumeClaim,
  ): Promise<boolean> {
    const { namespace } = this.#cluster;
    // A conflict repeats the exchange, because the cluster may have changed other parts of the
    // claim.
    for (let known = last; ; known = undefined) {
      const claim = known ?? (await this.find(name));
      if (!claim || !isWanted(claim.metadata?.labels ?? {})) return false;
      const { resourceVersion } = claim.metadata!;
      const result = await this.#cluster.request<"done", "gone" | "again">(
        "patch persistentvolumeclaims",
        async () => {
          await this.#cluster.core.patchNamespacedPersistentVolumeClaim(
            { namespace, name, body: { metadata: { labels: own, resourceVersion } } },
            setHeaderOptions("Content-Type", PatchStrategy.MergePatch),
          );
          return "done";
        },
        { 404: () => "gone", 409: () => "again" },
      );
      if (result !== "again") return result === "done";
    }
  }

  /**
   * Removes a claim. The cluster keeps its volume until no pod uses it. Ignores an unknown claim.
   */
  async remove(name: string): Promise<void> {
    const { namespace } = this.#cluster;
    await this.#cluster.request(
      "delete persistentvolumeclaims",
      () => this.#cluster.core.deleteNamespacedPersistentVolumeClaim({ namespace, name }),
      { 404: () => undefined },
    );
  }

  async #read(name: string): Promise<V1PersistentVolumeClaim | undefined> {
    const { namespace } = this.#cluster;
    return await this.#cluster.request<V1PersistentVolumeClaim, undefined>(
      "get persistentvolumeclaims",
      () => this.#cluster.core.readNamespacedPersistentVolumeClaim({ namespace, name }),
      { 404: () => undefined },
    );
  }

  /**
   * Tells whether the storage class makes volumes before pods. `create` then waits for the volume,
   * because the scheduler tries a pod without a volume again only after a while. Returns false
   * where the server may not read storage classes.
   */
  async #isBoundAtOnce(): Promise<boolean> {
    this.#bindsAtOnce ??= await this.#readBindingMode();
    return this.#bindsAtOnce;
  }

  async #readBindingMode(): Promise<boolean> {
    const found = await this.#cluster.request(
      "list storageclasses",
      () => this.#cluster.storage.listStorageClass(),
      { 403: () => undefined },
    );
    const isDefault = (notes: Record<string, string> | undefined) =>
      notes?.["storageclass.kubernetes.io/is-default-class"] === "true";
    const own = found?.items.find(({ metadata }) =>
      this.#storageClass ? metadata?.name === this.#storageClass : isDefault(metadata?.annotations),
    );
    if (found && !own)
      throw this.#storageClass
        ? new PlatformError("StorageClassMissing", { name: this.#storageClass })
        : new PlatformError("StorageClassNoDefault");
    return own !== undefined && own.volumeBindingMode !== "WaitForFirstConsumer";
  }

  async #waitUntilBound(name: string): Promise<void> {
    for (const end = Date.now() + bindTimeoutMs; Date.now() < end; await delay(pollMs)) {
      const claim = await this.#read(name);
      if (claim?.status?.phase === "Bound") return;
    }
    throw new PlatformError("VolumeNotBound", { seconds: bindTimeoutMs / 1_000 });
  }
}
