import { isIPv6 } from "node:net";
import { PlatformError } from "@sandpiper/core/errors";
import type { Principal } from "../principal.ts";
import { TokenBucketLimiter } from "./token-bucket-limiter.ts";

/**
 * Limits requests per second of each key, each sandbox's session key, and each address without a
 * valid key.
 */
export class RequestLimit {
  readonly #buckets: TokenBucketLimiter | undefined;
  readonly #perSecond: number;

  /** Allows bursts of twice `perSecond`; 0 disables the limit. */
  constructor(perSecond: number, clock?: () => number) {
    this.#perSecond = perSecond;
    this.#buckets =
      perSecond === 0 ? undefined : new TokenBucketLimiter({ perSecond, burst: 2 * perSecond }, clock);
  }

  /** Counts a request. Throws PlatformError TooManyRequests with the time to wait. */
  count(principal: Principal | undefined, address: () => string | undefined): void {
    if (!this.#buckets) return;
    const caller = principal?.keyId ?? principal?.sandboxId ?? toClientNetwork(address());
    const seconds = this.#buckets.take(caller);
    if (seconds === 0) return;
    const whose = principal ? "This key" : "This address";
    throw new PlatformError(
      "RequestRateExceeded",
      { caller: whose, perSecond: this.#perSecond },
      { retryAfter: seconds },
    );
  }
}

/** Normalises an address; an IPv6 client is identified by its /64. */
export function toClientNetwork(address = ""): string {
  if (!isIPv6(address)) return address;
  const mapped = /^::ffff:([\d.]+)$/i.exec(address);
  if (mapped) return mapped[1]!;
  const [head = "", tail] = address.toLowerCase().split("%", 1)[0]!.split("::", 2);
  const first = head === "" ? [] : head.split(":");
  const last = tail ? tail.split(":") : [];
  const missing = tail === undefined ? 0 : 8 - first.length - last.length;
  return `${[...first, ...Array.from({ length: missing }, () => "0"), ...last].slice(0, 4).join(":")}::/64`;
}
