import { PlatformError } from "@sandpiper/core/errors";
import { formatSize } from "./disk-space.ts";
import type { SandboxRuntimeState } from "./runtime-state.ts";

export interface UserDiskDeps {
  states: ReadonlyMap<string, Pick<SandboxRuntimeState, "id" | "userId" | "status">>;
  /** Bytes of a sandbox's files, also of one without processes. */
  measure: (id: string) => Promise<number>;
  snapshots: {
    owners(): Promise<{ id: string; userId: string }[]>;
    /** Bytes of snapshots, without what the sandboxes have too. */
    measure(snapshots: readonly string[], sandboxes: readonly string[]): Promise<number>;
  };
  /** For all sandboxes of a user; 0: no limit. */
  maxBytes: number;
}

/** Sandboxes that are measured in a round because nothing is known of them yet. */
const maxUnknown = 8;

/**
 * Counts what all sandboxes of a user take on the disk, hibernated ones included, and what
 * snapshots keep beyond them, also those of deleted sandboxes.
 */
export class UserDisk {
  readonly #deps: UserDiskDeps;
  readonly #sizes = new Map<string, number>();
  /** By user; `ids` tells whether the bytes still hold, because snapshots never change. */
  readonly #kept = new Map<string, { ids: string; bytes: number }>();
  #isMeasuring = false;

  constructor(deps: UserDiskDeps) {
    this.#deps = deps;
  }

  /** Records a measurement. */
  note(id: string, bytes: number): void {
    if (this.#deps.maxBytes > 0) this.#sizes.set(id, bytes);
  }

  /**
   * Measures some of the sandboxes that an earlier process left, and changed sets of snapshots.
   * Never rejects.
   */
  async tick(): Promise<void> {
    if (this.#deps.maxBytes === 0 || this.#isMeasuring) return;
    this.#isMeasuring = true;
    await this.#measureSandboxes();
    // When the store cannot be read, the next round measures the snapshots.
    await this.#measureSnapshots().catch(() => {});
    this.#isMeasuring = false;
  }

  async #measureSandboxes(): Promise<void> {
    const { states, measure } = this.#deps;
    for (const id of this.#sizes.keys()) if (!states.has(id)) this.#sizes.delete(id);
    const unknown = [...states.values()].filter(
      ({ id, status }) => status !== "STARTING" && !this.#sizes.has(id),
    );
    for (const { id } of unknown.slice(0, maxUnknown)) this.note(id, await measure(id).catch(() => 0));
  }

  async #measureSnapshots(): Promise<void> {
    const { states, snapshots } = this.#deps;
    const byUser = Map.groupBy(await snapshots.owners(), ({ userId }) => userId);
    for (const userId of this.#kept.keys()) if (!byUser.has(userId)) this.#kept.delete(userId);
    for (const [userId, owned] of byUser) {
      const sandboxes = [...states.values()].filter((state) => state.userId === userId).map(({ id }) => id);
      const kept = owned.map(({ id }) => id);
      const ids = [...kept, ...sandboxes].join();
      if (this.#kept.get(userId)?.ids === ids) continue;
      const bytes = await snapshots.measure(kept, sandboxes).catch(() => undefined);
      if (bytes !== undefined) this.#kept.set(userId, { ids, bytes });
    }
  }

  /** A part of a sentence when the user's sandboxes take more than they may. */
  findExcess(userId: string): string | undefined {
    const { maxBytes } = this.#deps;
    if (maxBytes === 0) return undefined;
    const bytes = this.#sum(userId);
    return bytes > maxBytes
      ? `${formatSize(bytes)} of the ${formatSize(maxBytes)} that they may take together`
      : undefined;
  }

  /** Bytes that a sandbox may take beside the user's others and the snapshots. */
  room(userId: string, id: string): number {
    const { maxBytes } = this.#deps;
    return maxBytes === 0 ? Number.MAX_SAFE_INTEGER : Math.max(0, maxBytes - this.#sum(userId, id));
  }

  #sum(userId: string, without?: string): number {
    let bytes = this.#kept.get(userId)?.bytes ?? 0;
    for (const [id, size] of this.#sizes)
      if (id !== without && this.#deps.states.get(id)?.userId === userId) bytes += size;
    return bytes;
  }

  /** Throws TooManySandboxes when the user may not have another sandbox. */
  require(userId: string): void {
    const amount = this.findExcess(userId);
    if (amount !== undefined) throw new PlatformError("UserDiskFull", { amount });
  }
}
