import type { NodeLoad, NodeStore } from "../store/node-store.ts";
import type { SandboxLocation } from "./api.ts";

/** How long a node uses the loads that it has read, ms. */
const readMs = 250;

/**
 * How many running sandboxes a node must have more than another one to pass the creation of a
 * sandbox on. With fewer, two nodes would pass on about every second creation.
 */
const minDifference = 2;

/** Chooses the nodes that create sandboxes, so that the nodes have about equal numbers of them. */
export class Placement {
  readonly #nodes: Pick<NodeStore, "loads">;
  readonly #steady: () => number;
  #loads: Promise<NodeLoad[]> = Promise.resolve([]);
  #readAt = Number.NEGATIVE_INFINITY;

  /** `steady` returns milliseconds of a monotonic clock. */
  constructor(nodes: Pick<NodeStore, "loads">, steady = () => performance.now()) {
    this.#nodes = nodes;
    this.#steady = steady;
  }

  /**
   * Returns the node that creates the next sandbox, and counts the sandbox for it. `self` is this
   * node's incarnation; undefined: this node should not own further sandboxes. Throws what the
   * store throws.
   */
  async choose(self: string | undefined): Promise<SandboxLocation> {
    if (this.#steady() - this.#readAt >= readMs) {
      this.#readAt = this.#steady();
      this.#loads = this.#nodes.loads();
    }
    const loads = await this.#loads;
    const chosen = chooseNode(loads, self);
    if (!chosen) return "here";
    chosen.running += 1;
    return chosen.incarnation === self ? "here" : chosen;
  }
}

/**
 * The node with the fewest running sandboxes, or this node if it has hardly more. Of equal nodes,
 * each node prefers the one that comes after it, so that several nodes choose different ones.
 */
export function chooseNode(loads: readonly NodeLoad[], self: string | undefined): NodeLoad | undefined {
  const place = loads.findIndex(({ incarnation }) => incarnation === self);
  const own = loads[place];
  const others = [...loads.slice(place + 1), ...loads.slice(0, Math.max(0, place))];
  const [least] = others
    .filter((node) => !node.isDraining)
    .toSorted((one, other) => one.running - other.running);
  return own && !(least && own.running - least.running >= minDifference) ? own : least;
}
