import type { NetworkPolicy } from "../../driver.ts";
import { canonicalHost } from "../proxy/target.ts";
import { findRules } from "./policy.ts";

/**
 * What a sandbox may reach that works on a repository: the host from which it is cloned (`git.example.com`, with `:port`) too. A network that is off
 * stays off. No credential rule is needed, a user's token goes to its provider's hosts by itself.
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
