import { type BlockList, isIP, type LookupFunction } from "node:net";
import type { Agent } from "undici";
import { PlatformError } from "../errors.ts";
import type { Resolve } from "./resolve.ts";

/** Which addresses a request may go to. */
export type IsAllowed = (address: string) => boolean;

/** How long a connection may take to be made, ms. */
const connectMs = 10_000;

/**
 * Connects to allowed addresses only. A name is resolved once per connection, and the connection
 * goes to the checked address. Literal addresses skip the lookup: `checkLiteral` checks them.
 * Loads undici, a third of the server's code, which a start does not need.
 */
export async function checkedAgent(resolve: Resolve, isAllowed: IsAllowed): Promise<Agent> {
  const { Agent } = await import("undici");
  const lookup: LookupFunction = (host, options, give) => {
    allowedAddresses(host, resolve, isAllowed).then(
      (addresses) => {
        const found = addresses.map((address) => ({ address, family: isIP(address) }));
        if (options.all) give(null, found);
        else give(null, found[0]!.address, found[0]!.family);
      },
      (error: Error) => give(error, options.all ? [] : ""),
    );
  };
  return new Agent({
    connect: { lookup, timeout: connectMs, autoSelectFamily: true },
    // One deadline over all is set by the caller of each request.
    headersTimeout: 0,
    bodyTimeout: 0,
    connections: 32,
    pipelining: 1,
  });
}

async function allowedAddresses(host: string, resolve: Resolve, isAllowed: IsAllowed): Promise<string[]> {
  const addresses = await resolve(host.replace(/\.$/, "")).catch(() => []);
  if (addresses.length === 0) throw new PlatformError("HostUnknown", { host });
  const allowed = addresses.filter(isAllowed);
  if (allowed.length === 0) throw refused(host);
  return allowed;
}

/**
 * Throws PlatformError OutboundRefused when the host of a URL is a literal address that is not
 * allowed.
 */
export function checkLiteral(url: URL, isAllowed: IsAllowed): void {
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  if (isIP(host) && !isAllowed(host)) throw refused(host);
}

/** The text omits the resolved addresses, because they would reveal the operator's network. */
function refused(host: string): PlatformError {
  return new PlatformError("AddressPrivate", { host });
}

/** Whether an address lies in one of these ranges. */
export function isIn(ranges: BlockList): IsAllowed {
  return (address) =>
    !address.includes("%") &&
    isIP(address) !== 0 &&
    ranges.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}
