import { type BlockList, connect, isIP, type LookupFunction, type Socket } from "node:net";
import { isReachable } from "@sandpiper/core/outbound/addresses";
import type { Resolve } from "@sandpiper/core/outbound/resolve";
import { Refusal } from "./refusal.ts";
import type { Target } from "./target.ts";

export interface DialOptions {
  resolve: Resolve;
  /** Private ranges that may be reached. */
  exempt: BlockList;
}

const connectTimeoutMs = 15_000;
const attemptTimeoutMs = 2_000;

/**
 * Resolves a target once and connects to an address that passed the check. Throws Refusal: 403 when
 * no address is allowed, 502 or 504 when none answers.
 */
export async function dial(target: Target, { resolve, exempt }: DialOptions): Promise<Socket> {
  const addresses = await resolveHost(target.host, resolve);
  const allowed = addresses.filter((address) => isReachable(address, exempt));
  if (allowed.length === 0) {
    const what = isIP(target.host) ? target.host : `${target.host} (${addresses.slice(0, 3).join(", ")})`;
    throw new Refusal(
      403,
      `${what} is a private or reserved address: sandboxes reach public ones only, unless the spec's network names its range as private.`,
    );
  }
  const lookup: LookupFunction = (_host, options, give) => {
    const found = allowed.map((address) => ({ address, family: isIP(address) }));
    if (options.all) give(null, found);
    else give(null, found[0]!.address, found[0]!.family);
  };
  const host = isIP(target.host) ? allowed[0]! : target.host;
  const socket = connect({
    ...{ host, port: target.port, lookup, noDelay: true, keepAlive: true, allowHalfOpen: true },
    ...{ autoSelectFamily: true, autoSelectFamilyAttemptTimeout: attemptTimeoutMs },
  });
  return waitForConnection(socket, target);
}

async function resolveHost(host: string, resolve: Resolve): Promise<string[]> {
  if (isIP(host)) return [host];
  try {
    const found = await resolve(host);
    if (found.length > 0) return found;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ENOTFOUND" && code !== "ENODATA")
      throw new Refusal(502, `The name ${host} could not be resolved (${code ?? "no answer"}).`);
  }
  throw new Refusal(502, `The host ${host} does not exist.`);
}

function waitForConnection(socket: Socket, { host, port }: Target): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => fail(new Refusal(504, `${host} does not answer on port ${port}.`)),
      connectTimeoutMs,
    );
    const fail = (error: Error) => {
      clearTimeout(timer);
      socket.destroy();
      reject(error);
    };
    const failed = (error: NodeJS.ErrnoException) =>
      fail(new Refusal(502, `${host} cannot be reached on port ${port} (${error.code}).`));
    socket.once("error", failed);
    socket.once("connect", () => {
      clearTimeout(timer);
      socket.off("error", failed);
      resolve(socket);
    });
  });
}
