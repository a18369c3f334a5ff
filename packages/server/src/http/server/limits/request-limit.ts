import { isIPv6 } from "node:net";
import { PlatformError } from "@sandpiper/core/errors";
import type { Principal } from "../principal.ts";
import { Buckets } from "./buckets.ts";

/** Bounds requests per second: of each key, of each sandbox's session key, and of each address that sends no valid key. */
export class RequestLimit {
  readonly #buckets: Buckets | undefined;
  readonly #perSecond: number;

  /** `perSecond` 0 is no limit. Twice as many may come at once. */
  constructor(perSecond: number, clock?: () => number) {
    this.#perSecond = perSecond;
    this.#buckets = perSecond === 0 ? undefined : new Buckets({ perSecond, burst: 2 * perSecond }, clock);
  }

  /** Counts a request of a caller. Throws PlatformError TooManyRequests with the time to wait. */
  count(principal: Principal | undefined, address: () => string | undefined): void {
    if (!this.#buckets) return;
    const caller = principal?.keyId ?? principal?.sandboxId ?? network(address());
    const seconds = this.#buckets.take(caller);
    if (seconds === 0) return;
    const whose = principal ? "This key" : "This address";
    throw new PlatformError(
      "TooManyRequests",
      `${whose} may send ${this.#perSecond} requests per second: wait and try again.`,
      {
        retryAfter: seconds,
      },
    );
  }
}

/** An address as callers are told apart by it: a whole /64 of IPv6 belongs to one. */
export function network(address = ""): string {
  if (!isIPv6(address)) return address;
  const mapped = /^::ffff:([\d.]+)$/i.exec(address);
  if (mapped) return mapped[1]!;
  const [head = "", tail] = address.toLowerCase().split("%", 1)[0]!.split("::", 2);
  const first = head === "" ? [] : head.split(":");
  const last = tail ? tail.split(":") : [];
  const missing = tail === undefined ? 0 : 8 - first.length - last.length;
  return `${[...first, ...Array.from({ length: missing }, () => "0"), ...last].slice(0, 4).join(":")}::/64`;
}
