import type { NetworkOverride } from "@sandpiper/wire";
import type { NetworkPolicy } from "../driver.ts";

/** Default ports are 80 and 443; without rules the spec's rules stay. */
export function toNetworkPolicy({
  mode,
  allow,
}: NetworkOverride): Partial<NetworkPolicy> & Pick<NetworkPolicy, "mode"> {
  if (!allow) return { mode };
  const rules = allow.map(({ host, ports, methods }) => ({
    host: host.toLowerCase(),
    ports: ports ?? [80, 443],
    methods: methods ?? null,
  }));
  return { mode, allow: rules };
}
