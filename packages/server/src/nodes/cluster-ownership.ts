import { setTimeout as sleep } from "node:timers/promises";
import { abortable } from "@sandpiper/core/abortable";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { RunOwner } from "../store/event-log.ts";
import type { ClaimedSandbox, ClaimRequest, NodeStore } from "../store/node-store.ts";
import {
  newSandbox,
  type OwnerDuties,
  type Ownership,
  type SandboxLocation,
  type SandboxRef,
} from "./api.ts";
import { type NodeDescription, NodeLease } from "./lease.ts";
import { Placement } from "./placement.ts";
import type { NodePresence } from "./presence.ts";

/** Interval at which a node looks whether another one has ended, ms. */
const lookMs = 250;

/** Number of looks after which a node claims sandboxes even when no node has ended. */
const looksPerSweep = 4;

/** Most sandboxes that one claim takes, so that several nodes share the sandboxes of a dead one. */
const claimSize = 8;

/** Most resting sandboxes that one claim takes. */
const restingSize = 32;

/** Most deleted sandboxes that this node remembers as its own. */
const maxRemoved = 10_000;

/** How long a node that has lost its lease waits for adoptions in progress, ms. */
const adoptionWaitMs = 250;

export interface ClusterOwnershipDeps {
  nodes: NodeStore;
  /**
   * Returns what other nodes need to know of this one. The node calls this when it joins the
   * cluster.
   */
  describe(): NodeDescription;
  /** Undefined: the node has no place. */
  presence?: NodePresence | undefined;
  /** As in `ClaimRequest`, ms. */
  lostAfterMs: number;
  logger: Logger;
  /** Milliseconds of a monotonic clock. */
  steady?: () => number;
}

/** The sandboxes that one node owns, by leases in the database. */
export class ClusterOwnership implements Ownership {
  readonly #deps: ClusterOwnershipDeps;
  readonly #lease: NodeLease;
  readonly #placement: Placement;
  readonly #epochs = new Map<string, number>();
  /** Sandboxes that this node has deleted; it still owns them for runs that record their end. */
  readonly #removed = new Set<string>();
  /** The adoptions and releases in progress, by sandbox. */
  readonly #changes = new Map<string, Promise<void>>();
  readonly #closing = new AbortController();
  #duties: OwnerDuties | undefined;
  #sweeping: Promise<void> = Promise.resolve();
  #nodeCount = 1;
  /**
   * True after the answer to a claim was lost: the database may name this node as the owner of
   * sandboxes that the node does not know as its own.
   */
  #isUnsure = false;

  constructor(deps: ClusterOwnershipDeps) {
    this.#deps = deps;
    const { nodes, describe, presence, logger, steady } = deps;
    this.#placement = new Placement(nodes, steady);
    this.#lease = new NodeLease({
      ...{ nodes, describe, presence, logger, ...(steady && { steady }) },
      onLost: () => this.#giveUp(),
    });
  }

  /** Incarnation of this node; it changes when the node joins again after a lost lease. */
  get incarnation(): string {
    return this.#lease.incarnation;
  }

  get nodeCount(): number {
    return this.#nodeCount;
  }

  async open(duties: OwnerDuties): Promise<void> {
    this.#duties = duties;
    await this.#lease.open();
    await this.#endDead();
    await this.#claimAll();
    this.#sweeping = this.#sweep();
  }

  ownerOf(sandboxId: string): RunOwner | undefined {
    const epoch = this.#lease.isValid ? this.#epochs.get(sandboxId) : undefined;
    return epoch === undefined ? undefined : { node: this.incarnation, epoch };
  }

  noteCreated(sandboxId: string): void {
    this.#epochs.set(sandboxId, 1);
  }

  noteRemoved(sandboxId: string): void {
    this.#removed.add(sandboxId);
    if (this.#removed.size <= maxRemoved) return;
    const [oldest] = this.#removed;
    this.#removed.delete(oldest!);
    this.#epochs.delete(oldest!);
  }

  async locate(sandboxId: SandboxRef): Promise<SandboxLocation> {
    if (sandboxId === newSandbox)
      return this.#placement.choose(this.#mayClaim ? this.incarnation : undefined);
    await this.#changes.get(sandboxId);
    if (this.ownerOf(sandboxId)) return "here";
    const { nodes } = this.#deps;
    const owner = await nodes.findOwner(sandboxId);
    if (!owner) return "here";
    if (owner.node && owner.node.incarnation !== this.incarnation) return owner.node;
    await this.#claim({ which: [sandboxId], limit: 1, known: [] });
    // Another request of this node may have claimed the sandbox.
    await this.#changes.get(sandboxId);
    if (this.ownerOf(sandboxId)) return "here";
    const next = await nodes.findOwner(sandboxId);
    if (!next) return "here";
    if (next.node && next.node.incarnation !== this.incarnation) return next.node;
    throw new PlatformError("SandboxWithoutNode", { retryAfter: 2 });
  }

  async drain(): Promise<void> {
    await this.#lease.drain();
    await this.#sweeping;
    await Promise.all(this.#changes.values());
    const ids = [...this.#epochs.keys()];
    await Promise.all(ids.map((id) => this.#changing([id], () => this.#handOver(id))));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#sweeping;
    await this.#lease.close();
    this.#epochs.clear();
  }

  async #handOver(id: string): Promise<void> {
    await this.#duties?.release([id], { lost: false });
    this.#epochs.delete(id);
    const { nodes, logger } = this.#deps;
    await nodes.release(this.incarnation, [id]).catch((error: unknown) => {
      // Other nodes claim the sandbox when the lease of this node ends.
      logger.warn({ sandbox: id, reason: errorText(error) }, "this node could not release a sandbox");
    });
  }

  async #sweep(): Promise<void> {
    const { signal } = this.#closing;
    let others = "";
    for (let look = 1; !signal.aborted && !this.#lease.isDraining; look++) {
      await sleep(lookMs, undefined, { signal, ref: false }).catch(() => {});
      if (signal.aborted || this.#lease.isDraining) return;
      try {
        await this.#endDead();
        const living = await this.#deps.nodes.list();
        this.#nodeCount = Math.max(1, living.length);
        const present = living.map(({ incarnation }) => incarnation).join();
        if (present !== others || look % looksPerSweep === 0) await this.#claimAll();
        others = present;
      } catch (error) {
        this.#deps.logger.warn(
          { reason: errorText(error) },
          "this node could not look for sandboxes without an owner",
        );
      }
    }
  }

  /** Ends the leases of nodes whose processes have ended on this machine. */
  async #endDead(): Promise<void> {
    const { nodes, presence, logger } = this.#deps;
    try {
      for (const incarnation of presence?.listEnded() ?? []) {
        logger.info({ node: incarnation }, "the process of a node has ended");
        await nodes.end(incarnation);
        presence?.forget(incarnation);
      }
    } catch (error) {
      // The leases end by themselves.
      logger.warn({ reason: errorText(error) }, "this node could not look for nodes that have ended");
    }
  }

  /** Claims sandboxes that need an owner until there are none, and then some resting sandboxes. */
  async #claimAll(): Promise<void> {
    const known = this.#isUnsure ? [...this.#epochs.keys()] : undefined;
    this.#isUnsure = false;
    while (await this.#claim({ which: "active", limit: claimSize, known }));
    await this.#claim({ which: "resting", limit: restingSize, known });
    await this.#claimOrphans();
    if (this.#mayClaim) await this.#duties!.adoptStarts();
  }

  get #mayClaim(): boolean {
    return this.#lease.isValid && !this.#lease.isDraining;
  }

  /** Claims sandboxes. Returns whether the claim found any. */
  async #claim(what: Pick<ClaimRequest, "which" | "limit" | "known">): Promise<boolean> {
    if (!this.#mayClaim) return false;
    const { nodes, lostAfterMs } = this.#deps;
    const { incarnation } = this;
    const claimed = await nodes.claim({ incarnation, lostAfterMs, ...what }).catch((error: unknown) => {
      this.#isUnsure = true;
      throw error;
    });
    // The lease may have ended while the database worked.
    if (incarnation !== this.incarnation || !this.#lease.isValid) return false;
    const added = claimed.filter(({ id, epoch }) => this.#epochs.get(id) !== epoch);
    if (added.length > 0) await this.#adopt(added, incarnation);
    return claimed.length > 0;
  }

  /** Claims conversations that run in deleted sandboxes, so that they come to an end here. */
  async #claimOrphans(): Promise<void> {
    if (!this.#mayClaim) return;
    const { incarnation } = this;
    const claimed = await this.#deps.nodes.claimOrphans(incarnation, claimSize);
    if (incarnation !== this.incarnation || !this.#lease.isValid || claimed.length === 0) return;
    const adopted = this.#adopt(claimed, incarnation);
    for (const { id } of claimed) this.noteRemoved(id);
    await adopted;
  }

  async #adopt(claimed: readonly ClaimedSandbox[], incarnation: string): Promise<void> {
    const ids = claimed.map(({ id }) => id);
    for (const { id, epoch } of claimed) this.#epochs.set(id, epoch);
    await this.#changing(ids, async () => {
      await this.#duties!.adopt(claimed);
      // The lease ended during the adoption, and its end did not wait for the adoption.
      if (incarnation !== this.incarnation) await this.#duties!.release(ids, { lost: true });
    });
  }

  /** Adopts or releases sandboxes. Requests for the sandboxes wait for the end. Never rejects. */
  #changing(ids: readonly string[], change: () => Promise<void>): Promise<void> {
    const changing = change()
      .catch((error: unknown) => {
        this.#deps.logger.error(
          { err: error, sandboxes: ids },
          "this node could not adopt or release sandboxes",
        );
      })
      .finally(() => {
        for (const id of ids) if (this.#changes.get(id) === changing) this.#changes.delete(id);
      });
    for (const id of ids) this.#changes.set(id, changing);
    return changing;
  }

  /** Ends everything live about all sandboxes after the lease has ended. */
  async #giveUp(): Promise<void> {
    const ids = [...this.#epochs.keys()];
    this.#epochs.clear();
    this.#removed.clear();
    const adoptions = Promise.allSettled(this.#changes.values());
    await abortable(adoptions, AbortSignal.timeout(adoptionWaitMs)).catch(() => {});
    await this.#duties?.release(ids, { lost: true });
  }
}
