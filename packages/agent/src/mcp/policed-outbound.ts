import { PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import type { NetworkPolicy } from "@sandpiper/sandbox/driver";
import { judgeMethod, judgeTarget } from "@sandpiper/sandbox/network/policy/policy";
import { toTarget } from "./addresses.ts";

type Fetch = Pick<Outbound, "fetch">;

/**
 * The server's requests for MCP servers that the user did not configure. They reach exactly what
 * the conversation's sandbox reaches: hosts, ports and methods of its policy, public addresses, and
 * the private ranges of the policy instead of those of the operator's own requests.
 */
export class PolicedOutbounds {
  /** By private ranges, which only the operator's specs name. */
  readonly #outbounds = new Map<string, ReturnType<typeof createOutbound>>();

  /** Each request throws OutboundRefused when the policy does not allow it. */
  within(policy: NetworkPolicy): Fetch {
    const outbound = this.#outbound(policy.private ?? []);
    return {
      fetch: async (url, options = {}) => {
        const target = toTarget(new URL(url));
        const refusal =
          judgeTarget(policy, target).refusal ?? judgeMethod(policy, target, options.method ?? "GET");
        if (refusal) throw new PlatformError("PolicyRefused", { refusal });
        return outbound.fetch(url, { ...options, redirect: "manual" });
      },
    };
  }

  async close(): Promise<void> {
    await Promise.all([...this.#outbounds.values()].map((outbound) => outbound.close()));
    this.#outbounds.clear();
  }

  #outbound(ranges: readonly string[]): ReturnType<typeof createOutbound> {
    const key = JSON.stringify(ranges);
    const known = this.#outbounds.get(key) ?? createOutbound({ allowPrivate: ranges });
    this.#outbounds.set(key, known);
    return known;
  }
}
