import { readFileSync } from "node:fs";

/** Limits of open connections of the listener. */
export interface ConnectionLimits {
  /** Connections of all clients. */
  total: number;
  /**
   * Connections without a valid credential so far. These places are never given to others, so that
   * somebody who connects can always show a key.
   */
  anonymous: number;
  /**
   * Connections without a valid credential from one client network that those of other networks
   * cannot displace. A network may have more while there are places.
   */
  networkShare: number;
  /** Connections of one user that others cannot displace. */
  perUser: number;
}

const defaultLimits: ConnectionLimits = {
  total: 10_000,
  anonymous: 2_048,
  networkShare: 512,
  perUser: 2_000,
};

/**
 * The limits for a process that may open `descriptors` files. Half of the descriptors stay free for
 * sandboxes, stores, and the second half of each forwarded connection.
 */
export function connectionLimits(descriptors: number): ConnectionLimits {
  const total = Math.min(defaultLimits.total, Math.floor(descriptors / 2));
  const share = (limit: number) => Math.max(1, Math.floor((limit * total) / defaultLimits.total));
  return {
    total,
    anonymous: share(defaultLimits.anonymous),
    networkShare: share(defaultLimits.networkShare),
    perUser: share(defaultLimits.perUser),
  };
}

/** How many files this process may open. Node raises the soft limit to the hard one. */
export function readDescriptorLimit(): number {
  const limit = /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
  return limit === undefined || limit === "unlimited" ? Number.MAX_SAFE_INTEGER : Number(limit);
}
