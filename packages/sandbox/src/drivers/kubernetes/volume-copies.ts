import type { V1ObjectMeta, V1Pod } from "@kubernetes/client-node";
import { PlatformError } from "@sandpiper/core/errors";
import type { ClaimFacts, Claims } from "./claims.ts";
import { helperPath } from "./helper-program.ts";
import { labels, readFacts, toSnapshotName } from "./labels.ts";
import { makePod, type PodDefaults } from "./pod-options.ts";
import { endReason } from "./pod-problems.ts";
import type { Pods } from "./pods.ts";

const from = "/from";
const to = "/to";

/** Label of a snapshot whose copy is not complete. `labels.snapshot` replaces it at the end. */
const incomplete = "sandpiper/incomplete-snapshot";

/** Age after which a helper pod or an incomplete snapshot has no server any more, ms. */
const maxHelperAgeMs = 3_600_000;

/** Makes snapshots. Each is a claim, to which a pod copies the files. */
export class VolumeCopies {
  readonly #claims: Claims;
  readonly #pods: Pods;
  readonly #defaults: PodDefaults;

  constructor({ claims, pods, defaults }: { claims: Claims; pods: Pods; defaults: PodDefaults }) {
    this.#claims = claims;
    this.#pods = pods;
    this.#defaults = defaults;
  }

  /** Copies the files of a claim into a new snapshot. `bytes`: size of the snapshot's volume. */
  async save(source: string, snapshotId: string, facts: ClaimFacts, bytes: number): Promise<void> {
    const name = this.#name(snapshotId);
    await this.#claims.create({ name, labels: { [incomplete]: snapshotId }, facts, bytes });
    try {
      await this.copy(source, name, facts);
      await this.#claims.label(name, { [incomplete]: null, [labels.snapshot]: snapshotId });
    } catch (error) {
      await this.#claims.remove(name).catch(() => {});
      throw error;
    }
  }

  /** Finds the claim of a complete snapshot. Throws SnapshotNotFound. */
  async find(snapshotId: string): Promise<{ name: string; facts: ClaimFacts }> {
    const name = this.#name(snapshotId);
    const claim = await this.#claims.find(name);
    const facts = readFacts<ClaimFacts>(claim?.metadata);
    if (!facts || claim?.metadata?.labels?.[labels.snapshot] !== snapshotId)
      throw new PlatformError("UnknownSnapshot", { id: snapshotId });
    return { name, facts };
  }

  async list(): Promise<string[]> {
    const claims = await this.#claims.list(labels.snapshot);
    return claims.map(({ metadata }) => metadata!.labels![labels.snapshot]!);
  }

  async remove(snapshotId: string): Promise<void> {
    await this.#claims.remove(this.#name(snapshotId));
  }

  /** Removes the helper pods and incomplete snapshots of killed servers. */
  async reap(): Promise<void> {
    for (const { metadata } of await this.#pods.list(labels.helper))
      if (isOld(metadata)) await this.#pods.remove(metadata!.name!);
    for (const { metadata } of await this.#claims.list(incomplete))
      if (isOld(metadata)) await this.#claims.remove(metadata!.name!);
  }

  /** Copies all files of a claim into another one. */
  async copy(source: string, target: string, { image }: Pick<ClaimFacts, "image">): Promise<void> {
    const name = `${target}-copy`;
    await this.#pods.remove(name);
    const pod = await this.#pods.create(this.#makeCopyPod(name, image, source, target));
    if (!pod) throw new PlatformError("CopyRuns");
    try {
      const ended = await this.#pods.waitUntilEnded(pod);
      if (ended.status?.phase !== "Succeeded")
        throw new PlatformError("CopyFailed", { reason: endReason(ended) });
    } finally {
      await this.#pods.remove(name);
    }
  }

  #makeCopyPod(name: string, image: string, source: string, target: string): V1Pod {
    const { installation } = this.#defaults;
    return makePod(
      {
        name,
        labels: { [labels.installation]: installation, [labels.helper]: "yes" },
        image,
        command: [helperPath, "copy", from, to],
        security: {
          runAsUser: 0,
          runAsGroup: 0,
          allowPrivilegeEscalation: false,
          capabilities: { drop: ["ALL"], add: ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"] },
        },
        claims: { [source]: [{ path: from }], [target]: [{ path: to }] },
      },
      this.#defaults,
    );
  }

  #name(snapshotId: string): string {
    return toSnapshotName(this.#defaults.installation, snapshotId);
  }
}

function isOld(metadata: V1ObjectMeta | undefined): boolean {
  return Date.now() - Number(metadata?.creationTimestamp ?? 0) > maxHelperAgeMs;
}
