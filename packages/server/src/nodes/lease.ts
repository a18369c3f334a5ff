import { setTimeout as sleep } from "node:timers/promises";
import { abortable } from "@sandpiper/core/abortable";
import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { newId } from "@sandpiper/wire";
import type { NodeRow, NodeStore } from "../store/node-store.ts";
import type { NodePresence } from "./presence.ts";

/** How long a lease lasts after a renewal, ms. */
export const leaseMs = 4_000;

/** Interval of renewals, ms. */
const renewMs = 1_000;

/** Delay between attempts to renew a lease that is still valid, ms. */
const retryMs = 200;

/** How much earlier than the database a node ends its own lease, ms. */
const marginMs = 500;

export type NodeDescription = Omit<NodeRow, "incarnation" | "isDraining">;

export interface NodeLeaseDeps {
  nodes: Pick<NodeStore, "join" | "renew" | "leave">;
  /** Shows the other nodes of the machine that this process lives; undefined: there are none. */
  presence?: Pick<NodePresence, "enter" | "leave"> | undefined;
  /** Returns what other nodes need to know of this one. */
  describe(): NodeDescription;
  /**
   * The lease calls this when it has ended: other nodes may own the sandboxes of this node now. The
   * function must not reject.
   */
  onLost(): Promise<void>;
  logger: Pick<Logger, "info" | "warn">;
  /** Milliseconds of a monotonic clock. */
  steady?: () => number;
}

/**
 * The lease of this node. The node counts the time of the lease from before it sent a renewal, by
 * its monotonic clock, and ends the lease earlier than the database does. So no other node owns a
 * sandbox that this node takes for its own.
 */
export class NodeLease {
  readonly #deps: NodeLeaseDeps;
  readonly #steady: () => number;
  readonly #closing = new AbortController();
  #incarnation = newId();
  /** Monotonic time until which this node may act as an owner. */
  #validUntil = 0;
  #isDraining = false;
  #keeping: Promise<void> = Promise.resolve();

  constructor(deps: NodeLeaseDeps) {
    this.#deps = deps;
    this.#steady = deps.steady ?? (() => performance.now());
  }

  /** Incarnation of this node; it changes when the node joins again after a lost lease. */
  get incarnation(): string {
    return this.#incarnation;
  }

  get isValid(): boolean {
    return this.#steady() < this.#validUntil;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Joins the cluster and renews the lease from now on. Throws what the store throws. */
  async open(): Promise<void> {
    await this.#join();
    this.#keeping = this.#keep();
  }

  /** Tells the other nodes that this one drains: it claims no further sandboxes. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    await this.#deps.nodes.renew({ incarnation: this.#incarnation, isDraining: true }, leaseMs);
  }

  /** Leaves the cluster: other nodes may claim the sandboxes of this node at once. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#keeping;
    this.#validUntil = 0;
    await this.#leave();
  }

  async #join(): Promise<void> {
    const { nodes, describe } = this.#deps;
    this.#enter();
    const before = this.#steady();
    await nodes.join(
      { ...describe(), incarnation: this.#incarnation, isDraining: this.#isDraining },
      leaseMs,
    );
    this.#validUntil = before + leaseMs - marginMs;
  }

  /** Locks the file of this node. Without the lock, other nodes wait for the end of the lease. */
  #enter(): void {
    const { presence, logger } = this.#deps;
    try {
      presence?.enter(this.#incarnation);
    } catch (error) {
      logger.warn({ reason: errorText(error) }, "this node could not lock its file in the data folder");
    }
  }

  /** Ends the lease in the database; when this fails, the lease expires by itself. */
  async #leave(): Promise<void> {
    const { nodes, presence, logger } = this.#deps;
    const left = nodes.leave(this.#incarnation).then(() => true);
    if (!(await this.#ask(left, leaseMs)))
      logger.warn({ node: this.#incarnation }, "the node could not leave the cluster");
    presence?.leave(this.#incarnation);
  }

  async #keep(): Promise<void> {
    const { logger, onLost } = this.#deps;
    while (await this.#sleep(renewMs)) {
      if (await this.#renew()) continue;
      if (this.#closing.signal.aborted) return;
      this.#validUntil = 0;
      logger.warn({ node: this.#incarnation }, "this node has lost its lease and ends its runs");
      await onLost();
      await this.#leave();
      this.#incarnation = newId();
      await this.#rejoin();
    }
  }

  /**
   * Renews the lease, and tries again until the lease ends. Returns false when the lease has ended.
   */
  async #renew(): Promise<boolean> {
    const { nodes } = this.#deps;
    while (this.isValid) {
      const before = this.#steady();
      const node = { incarnation: this.#incarnation, isDraining: this.#isDraining };
      const renewed = await this.#ask(nodes.renew(node, leaseMs), this.#validUntil - before);
      if (renewed === true) this.#validUntil = before + leaseMs - marginMs;
      if (renewed !== undefined) return renewed;
      if (!(await this.#sleep(retryMs))) return false;
    }
    return false;
  }

  async #rejoin(): Promise<void> {
    const { logger } = this.#deps;
    do {
      try {
        await this.#join();
        return logger.info({ node: this.#incarnation }, "this node has joined the cluster again");
      } catch (error) {
        logger.warn({ reason: errorText(error) }, "this node could not join the cluster");
      }
    } while (await this.#sleep(renewMs));
  }

  /** Returns the answer of the store; undefined when the store fails or takes too long. */
  async #ask<T>(answer: Promise<T>, timeoutMs: number): Promise<T | undefined> {
    try {
      return await abortable(answer, AbortSignal.timeout(Math.max(1, Math.ceil(timeoutMs))));
    } catch (error) {
      this.#deps.logger.warn({ reason: errorText(error) }, "the database did not answer this node");
      return undefined;
    }
  }

  /** Waits. Returns false when the node closes. */
  async #sleep(ms: number): Promise<boolean> {
    const { signal } = this.#closing;
    await sleep(ms, undefined, { signal, ref: false }).catch(() => {});
    return !signal.aborted;
  }
}
