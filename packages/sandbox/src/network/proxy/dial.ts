import type { BlockList, Socket } from "node:net";
import { PlatformError } from "@sandpiper/core/errors";
import { isReachable } from "@sandpiper/core/outbound/addresses";
import { dial } from "@sandpiper/core/outbound/dial";
import type { Resolve } from "@sandpiper/core/outbound/resolve";
import { Refusal } from "./refusal.ts";
import { type Target, toAuthority } from "./target.ts";

export interface SandboxDialOptions {
  resolve: Resolve;
  /** Private ranges that may be reached. */
  exempt: BlockList;
  /** The operator named the host itself, so that it may have any address. */
  isNamed: boolean;
}

/**
 * Connects a sandbox to a checked address of a target. Throws Refusal: 403 when no address is
 * allowed, 502 or 504 when none answers. A refusal names what the sandbox asked for, never the
 * addresses of the name: those are of the operator's network.
 */
export async function dialForSandbox(
  target: Target,
  { resolve, exempt, isNamed }: SandboxDialOptions,
): Promise<Socket> {
  try {
    return await dial(target, { resolve, isAllowed: (address) => isNamed || isReachable(address, exempt) });
  } catch (error) {
    if (!(error instanceof PlatformError)) throw error;
    if (error.code !== "OutboundRefused") throw new Refusal(error.status, error.message);
    throw new Refusal(
      403,
      `${toAuthority(target)} is a private or reserved address: sandboxes reach public ones only, unless the operator names its range in network.private of the sandbox's spec.`,
    );
  }
}
