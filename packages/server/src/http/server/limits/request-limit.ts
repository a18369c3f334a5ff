import type { IncomingMessage } from "node:http";
import { type BlockList, isIP, isIPv6 } from "node:net";
import { PlatformError } from "@sandpiper/core/errors";
import type { Principal } from "../principal.ts";
import { type LimiterSources, TokenBucketLimiter } from "./token-bucket-limiter.ts";

/**
 * Limits requests per second of each key, each sandbox's session key, and each address without a
 * valid key.
 */
export class RequestLimit {
  readonly #buckets: TokenBucketLimiter | undefined;
  readonly #perSecond: number;

  /** Allows bursts of twice `perSecond`; 0 disables the limit. */
  constructor(perSecond: number, sources?: LimiterSources) {
    this.#perSecond = perSecond;
    this.#buckets =
      perSecond === 0 ? undefined : new TokenBucketLimiter({ perSecond, burst: 2 * perSecond }, sources);
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

/**
 * The address of the client: of the connection, or the one that trusted proxies in front forward in
 * `X-Forwarded-For`. For requests that Fastify does not see.
 */
export function getClientAddress(
  { socket, headers }: Pick<IncomingMessage, "socket" | "headers">,
  trustedProxies: BlockList,
): string | undefined {
  const forwarded = [headers["x-forwarded-for"] ?? []].flat().join(",").split(",");
  let address = socket.remoteAddress;
  while (address !== undefined && isInRanges(address, trustedProxies)) {
    const next = forwarded.pop()?.trim();
    if (next === undefined || isIP(next) === 0) break;
    address = next;
  }
  return address;
}

/** Whether an address, or the IPv4 address that it maps, is in the ranges. */
export function isInRanges(address: string, ranges: BlockList): boolean {
  const plain = mappedIPv4.exec(address)?.[1] ?? address;
  return isIP(plain) !== 0 && ranges.check(plain, isIPv6(plain) ? "ipv6" : "ipv4");
}

const mappedIPv4 = /^::ffff:([\d.]+)$/i;

/** Normalises an address; an IPv6 client is identified by its /64. */
export function toClientNetwork(address = ""): string {
  if (!isIPv6(address)) return address;
  const mapped = mappedIPv4.exec(address);
  if (mapped) return mapped[1]!;
  const [head = "", tail] = address.toLowerCase().split("%", 1)[0]!.split("::", 2);
  const first = head === "" ? [] : head.split(":");
  const last = tail ? tail.split(":") : [];
  const missing = tail === undefined ? 0 : 8 - first.length - last.length;
  return `${[...first, ...Array.from({ length: missing }, () => "0"), ...last].slice(0, 4).join(":")}::/64`;
}
