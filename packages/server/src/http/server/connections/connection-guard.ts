import type { BlockList } from "node:net";
import type { Duplex } from "node:stream";
import type { Logger } from "@sandpiper/core/log/logger";
import { isInRanges, toClientNetwork } from "../limits/request-limit.ts";
import type { ConnectionLimits } from "./connection-limits.ts";

/** How often a warning about displaced connections is written, ms. */
const warnEveryMs = 60_000;

/** A connection of the listener; Node types upgraded ones as streams. */
export type Connection = Pick<Duplex, "destroy" | "once"> & { remoteAddress?: string | undefined };

export interface ConnectionGuardOptions {
  limits: ConnectionLimits;
  /** Proxies, which connect for many clients: no share of theirs is too large. */
  trustedProxies: BlockList;
  logger: Pick<Logger, "warn">;
  /** Monotonic time, ms. */
  clock?: () => number;
}

/**
 * Bounds open connections. A connection is anonymous until a request on it shows a valid
 * credential. Over a limit, the oldest anonymous connection is closed instead of refusing the new
 * one: the time to send a request shrinks under a flood, and everybody who has a key still gets in.
 */
export class ConnectionGuard {
  readonly #options: Required<ConnectionGuardOptions>;
  /** Oldest first, with their networks: undefined for a trusted proxy and before it is counted. */
  readonly #anonymous = new Map<Connection, string | undefined>();
  /** The youngest, oldest first, which are not in `#networks` yet. */
  readonly #uncounted = new Set<Connection>();
  readonly #networks = new Map<string, Set<Connection>>();
  /** Networks with more than their share, the first of which loses a connection. */
  readonly #large = new Set<string>();
  /** Connections with a credential, and their users. */
  readonly #known = new Map<Connection, string>();
  readonly #users = new Map<string, number>();
  #displaced = 0;
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(options: ConnectionGuardOptions) {
    this.#options = { clock: () => performance.now(), ...options };
  }

  /** Maximum number of connections. */
  get total(): number {
    return this.#options.limits.total;
  }

  /**
   * Adds a new connection. With too many anonymous ones, closes the oldest one of a network that
   * has more than its share, or else the oldest of all. Until then a network may have all places:
   * a thousand clients behind one address may come back at once after a restart. Addresses are
   * read only when there are too many: they are half the cost of a connection's start, which others
   * wait for while a client opens thousands.
   */
  admit(connection: Connection): void {
    this.#anonymous.set(connection, undefined);
    this.#uncounted.add(connection);
    if (this.#anonymous.size > this.#options.limits.anonymous) {
      this.#count();
      const [large] = this.#large;
      const candidates = large === undefined ? this.#anonymous.keys() : this.#networks.get(large)!;
      this.#displace(candidates, connection);
    }
    connection.once("close", () => {
      this.#removeAnonymous(connection);
      this.#removeKnown(connection);
    });
  }

  /**
   * Notes that a request on the connection showed a valid credential of the user. Over the user's
   * limit, and where all other places are taken, the connection stays anonymous.
   */
  identify(connection: Connection, userId: string): void {
    const { limits } = this.#options;
    if (!this.#anonymous.has(connection)) return;
    const count = this.#users.get(userId) ?? 0;
    if (count >= limits.perUser || this.#known.size >= limits.total - limits.anonymous) return;
    this.#removeAnonymous(connection);
    this.#known.set(connection, userId);
    this.#users.set(userId, count + 1);
  }

  /** Notes that a connection is another node's, which has counted its clients. */
  exempt(connection: Connection): void {
    this.#removeAnonymous(connection);
  }

  /** Counts connections by their networks. */
  #count(): void {
    for (const connection of this.#uncounted) {
      const network = this.#networkOf(connection.remoteAddress);
      if (network === undefined) continue;
      this.#anonymous.set(connection, network);
      const siblings = this.#networks.get(network) ?? new Set();
      this.#networks.set(network, siblings.add(connection));
      if (siblings.size > this.#options.limits.networkShare) this.#large.add(network);
    }
    this.#uncounted.clear();
  }

  #networkOf(address: string | undefined): string | undefined {
    if (address === undefined) return "";
    return isInRanges(address, this.#options.trustedProxies) ? undefined : toClientNetwork(address);
  }

  #displace([oldest]: Iterable<Connection>, newcomer: Connection): void {
    if (!oldest) return;
    this.#removeAnonymous(oldest);
    oldest.destroy();
    this.#displaced++;
    const now = this.#options.clock();
    if (now - this.#warnedAt < warnEveryMs) return;
    this.#options.logger.warn(
      { displaced: this.#displaced, address: this.#networkOf(newcomer.remoteAddress) },
      "Many connections without a key are open: the oldest are closed for new ones",
    );
    this.#displaced = 0;
    this.#warnedAt = now;
  }

  #removeAnonymous(connection: Connection): void {
    const network = this.#anonymous.get(connection);
    this.#anonymous.delete(connection);
    this.#uncounted.delete(connection);
    if (network === undefined) return;
    const siblings = this.#networks.get(network);
    if (!siblings?.delete(connection)) return;
    if (siblings.size <= this.#options.limits.networkShare) this.#large.delete(network);
    if (siblings.size === 0) this.#networks.delete(network);
  }

  #removeKnown(connection: Connection): void {
    const userId = this.#known.get(connection);
    if (userId === undefined) return;
    this.#known.delete(connection);
    const count = this.#users.get(userId)! - 1;
    if (count === 0) this.#users.delete(userId);
    else this.#users.set(userId, count);
  }
}
