import type { NetworkOverride, NetworkRule } from "@sandpiper/wire";
import type { NetworkPolicy } from "../driver.ts";

/** Without rules the spec's rules stay. */
export function toNetworkPolicy({
  mode,
  allow,
}: NetworkOverride): Partial<NetworkPolicy> & Pick<NetworkPolicy, "mode"> {
  return allow ? { mode, allow: toRules(allow) } : { mode };
}

/** Default ports are 80 and 443. */
export function toRules(rules: readonly NetworkRule[]): NetworkPolicy["allow"] {
  return rules.map(({ host, ports, methods }) => ({
    host: host.toLowerCase(),
    ports: ports ?? [80, 443],
    methods: methods ?? null,
  }));
}
