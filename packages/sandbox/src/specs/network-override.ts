import type { NetworkOverride } from "@sandpiper/wire";
import type { NetworkPolicy } from "../driver.ts";

/** What a client asked for as a policy. Rules without ports are for http and https; without rules those of the spec stay. */
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
