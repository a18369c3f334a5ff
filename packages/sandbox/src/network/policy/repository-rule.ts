import type { NetworkPolicy } from "../../driver.ts";
import { canonicalHost } from "../proxy/target.ts";
import { findRules } from "./policy.ts";

/**
 * A policy that also allows the host of a repository (`git.example.com`, optionally `:port`),
 * unless the network is off. It needs no credential rule: a user's token may be sent to its
 * provider's hosts anyway.
 */
export function withRepositoryHost(
  policy: NetworkPolicy,
  host: string,
): Pick<NetworkPolicy, "mode" | "allow"> {
  const { mode, allow } = policy;
  const [, text = "", port = "443"] = /^(?:https?:\/\/)?(.*?)(?::(\d{1,5}))?$/.exec(host) ?? [];
  const name = canonicalHost(text);
  const target = { host: name ?? "", port: Number(port) };
  if (
    mode !== "allowlist" ||
    name === undefined ||
    findRules(policy, target).some(({ methods }) => methods === null)
  )
    return { mode, allow };
  return { mode, allow: [...allow, { host: name, ports: [target.port], methods: null }] };
}
