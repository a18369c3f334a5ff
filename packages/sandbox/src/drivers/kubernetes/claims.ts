import { setTimeout as delay } from "node:timers/promises";
import { PatchStrategy, setHeaderOptions, type V1PersistentVolumeClaim } from "@kubernetes/client-node";
import { PlatformError } from "@sandpiper/core/errors";
import type { Cluster } from "./cluster.ts";
import { annotations, labels, selectLabel } from "./labels.ts";
import type { MountedFolder } from "./volume-folders.ts";

/** Wait for a volume, ms. */
const bindTimeoutMs = 120_000;
/** Wait for a claim that another sandbox of that name had, ms. */
const deletionTimeoutMs = 60_000;
const pollMs = 25;

/** What a later start needs to know about a claim; kept in its annotations. */
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

  /** `storageClass`: undefined for the cluster's default. */
  constructor(cluster: Cluster, installation: string, storageClass: string | undefined) {
    this.#cluster = cluster;
    this.#installation = installation;
    this.#storageClass = storageClass;
  }

  /**
   * Creates a claim and waits for its volume where the storage class makes volumes before pods.
   * Waits first until an old claim of that name has gone.
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

  /** Undefined for an unknown claim and for one that is being deleted. */
  async find(name: string): Promise<V1PersistentVolumeClaim | undefined> {
    const claim = await this.#read(name);
    return claim?.metadata?.deletionTimestamp ? undefined : claim;
  }

  /** The claim of a sandbox. Undefined for an unknown one. */
  async findSandbox(id: string): Promise<V1PersistentVolumeClaim | undefined> {
    const [claim] = await this.list(labels.sandbox, id);
    return claim;
  }

  /** All that have the label, with this value if one is given, and are not being deleted. */
  async list(label: string, value?: string): Promise<V1PersistentVolumeClaim[]> {
    const { namespace } = this.#cluster;
    const labelSelector = selectLabel(this.#installation, label, value);
    const found = await this.#cluster.request("list persistentvolumeclaims", () =>
      this.#cluster.core.listNamespacedPersistentVolumeClaim({ namespace, labelSelector }),
    );
    return found.items.filter(({ metadata }) => !metadata?.deletionTimestamp);
  }

  /** Sets labels; null removes one. */
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
   * Sets labels (null removes one) if those of now are the wanted ones, and nobody changes them at
   * the same time. False otherwise, and for an unknown claim. `last`: the claim as it was known
   * before, which saves a request when it is still so.
   */
  async exchange(
    name: string,
    isWanted: (own: Record<string, string>) => boolean,
    own: Record<string, string | null>,
    last?: V1PersistentVolumeClaim,
  ): Promise<boolean> {
    const { namespace } = this.#cluster;
    // The cluster itself may change other parts of the claim meanwhile.
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

  /** The cluster keeps the volume until no pod uses it. An unknown claim is ignored. */
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
   * A pod with a claim that has no volume yet is tried again only after a while, so that it pays
   * off to wait. Unknown where the server may not read storage classes: then nothing is waited for.
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
