import { setTimeout as sleep } from "node:timers/promises";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { ClaimedSandbox, NodeRow, NodeStore } from "../store/node-store.ts";
import type { OwnerDuties, Ownership, SandboxLocation } from "./api.ts";
import { NodeLease } from "./lease.ts";

/** Interval at which sandboxes without an owner are looked for, ms. */
const sweepMs = 1_000;

/** Sandboxes that one claim takes, so that several nodes share those of a dead one. */
const claimSize = 8;

export interface ClusterOwnershipDeps {
  nodes: NodeStore;
  node: Omit<NodeRow, "incarnation" | "isDraining">;
  /** See `ClaimRequest`. */
  lostAfterMs: number;
  logger: Logger;
  /** Milliseconds of a monotonic clock. */
  steady?: () => number;
}

/** The part of one node in the ownership of sandboxes, by leases in the database. */
export class ClusterOwnership implements Ownership {
  readonly #deps: ClusterOwnershipDeps;
  readonly #lease: NodeLease;
  readonly #epochs = new Map<string, number>();
  /** Sandboxes that are being adopted. */
  readonly #adoptions = new Map<string, Promise<void>>();
  readonly #closing = new AbortController();
  #duties: OwnerDuties | undefined;
  #sweeping: Promise<void> = Promise.resolve();

  constructor(deps: ClusterOwnershipDeps) {
    this.#deps = deps;
    const { nodes, node, logger, steady } = deps;
    this.#lease = new NodeLease({
      ...{ nodes, node, logger, ...(steady && { steady }) },
      onLost: () => this.#giveUp(),
    });
  }

  /** The id of this node's current time in the cluster. */
  get incarnation(): string {
    return this.#lease.incarnation;
  }

  async open(duties: OwnerDuties): Promise<void> {
    this.#duties = duties;
    await this.#lease.open();
    await this.#claimAll();
    this.#sweeping = this.#sweep();
  }

  epochOf(sandboxId: string): number | undefined {
    return this.#lease.isValid ? this.#epochs.get(sandboxId) : undefined;
  }

  note(sandboxId: string, epoch: number | undefined): void {
    if (epoch === undefined) this.#epochs.delete(sandboxId);
    else this.#epochs.set(sandboxId, epoch);
  }

  async locate(sandboxId: string): Promise<SandboxLocation> {
    await this.#adoptions.get(sandboxId);
    if (this.epochOf(sandboxId) !== undefined) return "here";
    const { nodes } = this.#deps;
    const owner = await nodes.findOwner(sandboxId);
    if (!owner) return "here";
    if (owner.node && owner.node.incarnation !== this.incarnation) return owner.node;
    if (await this.#claim(1, [sandboxId])) return "here";
    const next = await nodes.findOwner(sandboxId);
    if (next?.node && next.node.incarnation !== this.incarnation) return next.node;
    if (this.epochOf(sandboxId) !== undefined || !next) return "here";
    throw new PlatformError("SandboxWithoutNode", { retryAfter: 2 });
  }

  async drain(): Promise<void> {
    await this.#lease.drain();
    await this.#sweeping;
    const { nodes } = this.#deps;
    const ids = [...this.#epochs.keys()];
    await this.#duties?.release(ids, { lost: false });
    for (const id of ids) this.#epochs.delete(id);
    await nodes.release(this.incarnation, ids);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#sweeping;
    await this.#lease.close();
    this.#epochs.clear();
  }

  async #sweep(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted && !this.#lease.isDraining) {
      await sleep(sweepMs, undefined, { signal, ref: false }).catch(() => {});
      if (signal.aborted || this.#lease.isDraining) return;
      await this.#claimAll().catch((error: unknown) => {
        this.#deps.logger.warn({ reason: errorText(error) }, "sandboxes without a node were not looked for");
      });
    }
  }

  /** Claims sandboxes that need an owner until there are none. */
  async #claimAll(): Promise<void> {
    while (this.#lease.isValid && !this.#lease.isDraining && (await this.#claim(claimSize)));
  }

  /** Whether this node owns more than before. */
  async #claim(limit: number, ids?: readonly string[]): Promise<boolean> {
    if (!this.#lease.isValid || this.#lease.isDraining) return false;
    const { nodes, lostAfterMs } = this.#deps;
    const { incarnation } = this;
    const claimed = await nodes.claim({ incarnation, ids, limit, lostAfterMs });
    // The lease may have ended while the database worked.
    if (incarnation !== this.incarnation || !this.#lease.isValid) return false;
    await this.#adopt(claimed);
    return claimed.length > 0;
  }

  async #adopt(claimed: readonly ClaimedSandbox[]): Promise<void> {
    if (claimed.length === 0) return;
    const ids = claimed.map(({ id }) => id);
    for (const { id, epoch } of claimed) this.#epochs.set(id, epoch);
    const adoption = this.#duties!.adopt(ids).finally(() => {
      for (const id of ids) this.#adoptions.delete(id);
    });
    for (const id of ids) this.#adoptions.set(id, adoption);
    await adoption;
  }

  /** The lease has ended. */
  async #giveUp(): Promise<void> {
    await Promise.all(this.#adoptions.values());
    const ids = [...this.#epochs.keys()];
    await this.#duties?.release(ids, { lost: true });
    this.#epochs.clear();
  }
}
