import { connect, isIP, type LookupFunction, type Socket } from "node:net";
import { PlatformError } from "../errors.ts";
import type { IsAllowed } from "./agents.ts";
import type { Resolve } from "./resolve.ts";

/** Where a connection goes: a name or an address (IPv6 without brackets), and a TCP port. */
export interface Destination {
  host: string;
  port: number;
}

export interface DialOptions {
  resolve: Resolve;
  isAllowed: IsAllowed;
}

/** How long all attempts to connect may take, ms. */
const connectTimeoutMs = 15_000;
/** How long one address may take before the next one is tried, ms. */
const attemptTimeoutMs = 2_000;
/** Addresses of a name that are tried; a hostile name server may send thousands. */
const maxAddresses = 8;

/**
 * Resolves a host once and connects to an address that passed the check. No text names an address
 * that the caller did not name. Throws PlatformError OutboundRefused when no address is allowed,
 * and OutboundFailed when the host is unknown or none of its addresses answers.
 */
export async function dial(
  { host, port }: Destination,
  { resolve, isAllowed }: DialOptions,
): Promise<Socket> {
  const addresses = isIP(host) ? [host] : await resolveHost(host, resolve);
  const allowed = addresses.filter(isAllowed).slice(0, maxAddresses);
  if (allowed.length === 0) throw new PlatformError("AddressPrivate", { host });
  const lookup: LookupFunction = (_host, options, give) => {
    const found = allowed.map((address) => ({ address, family: isIP(address) }));
    if (options.all) give(null, found);
    else give(null, found[0]!.address, found[0]!.family);
  };
  const socket = connect({
    ...{ host: isIP(host) ? allowed[0]! : host, port, lookup, noDelay: true, keepAlive: true },
    ...{ allowHalfOpen: true, autoSelectFamily: true, autoSelectFamilyAttemptTimeout: attemptTimeoutMs },
  });
  return waitForConnection(socket, { host, port });
}

async function resolveHost(host: string, resolve: Resolve): Promise<string[]> {
  try {
    const found = await resolve(host);
    if (found.length > 0) return found;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ENOTFOUND" && code !== "ENODATA")
      throw new PlatformError("HostUnresolved", { host, reason: code ?? "no answer" });
  }
  throw new PlatformError("HostUnknown", { host });
}

function waitForConnection(socket: Socket, { host, port }: Destination): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => fail(new PlatformError("PortSilent", { host, port })), connectTimeoutMs);
    const fail = (error: Error) => {
      clearTimeout(timer);
      socket.destroy();
      reject(error);
    };
    const failed = (error: NodeJS.ErrnoException) =>
      fail(new PlatformError("PortUnreached", { host, port, reason: error.code ?? "it was closed" }));
    socket.once("error", failed);
    socket.once("connect", () => {
      clearTimeout(timer);
      socket.off("error", failed);
      resolve(socket);
    });
  });
}
