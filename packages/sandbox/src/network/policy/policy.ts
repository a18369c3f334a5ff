import { isIP } from "node:net";
import type { AllowRule, NetworkPolicy } from "../../driver.ts";
import { canonicalHost, type Target, toAuthority } from "../proxy/target.ts";

/** The decision of a policy about a target. */
export interface Verdict {
  /** Sentence with the missing rule; undefined when the target is allowed. */
  refusal?: string;
  /** The proxy must check the requests, because rules name methods. */
  inspect: boolean;
}

/** Judges a connection before its requests. */
export function judgeTarget(policy: NetworkPolicy, target: Target): Verdict {
  if (policy.mode === "none") return { refusal: "The network of this sandbox is off.", inspect: false };
  if (policy.mode === "open") return { inspect: false };
  const rules = findRules(policy, target);
  if (rules.length === 0) {
    const names = policy.allow.some((rule) => matchesHost(rule.host, target.host));
    const missing = names
      ? `port ${target.port} in the rule for ${target.host}`
      : `a rule for ${toAuthority(target)}`;
    const example = JSON.stringify(toAuthority(target));
    return {
      refusal: `The network policy of this sandbox allows no connection to ${toAuthority(target)}: it would need ${missing}, such as ${example} in network.allow.`,
      inspect: false,
    };
  }
  return { inspect: rules.every((rule) => rule.methods !== null) };
}

/** Judges the method of a request to an allowed target. Returns the sentence of a refusal. */
export function judgeMethod(policy: NetworkPolicy, target: Target, method: string): string | undefined {
  if (policy.mode !== "allowlist") return undefined;
  if (findRules(policy, target).some((rule) => rule.methods === null || rule.methods.includes(method)))
    return undefined;
  return `The network policy of this sandbox does not allow ${method} to ${toAuthority(target)}: it would need ${method} in the methods of a rule.`;
}

/** True when the proxy must terminate TLS. */
export function needsTermination(policy: NetworkPolicy): boolean {
  if (policy.mode === "none") return false;
  return (
    policy.userSecrets === true ||
    policy.credentials.length > 0 ||
    (policy.mode === "allowlist" && policy.allow.some((rule) => rule.methods !== null))
  );
}

/** `example.com` matches that name only, `*.example.com` every name below it. */
export function matchesHost(pattern: string, host: string): boolean {
  if (!pattern.startsWith("*."))
    return canonicalHost(pattern.includes(":") && isIP(pattern) ? `[${pattern}]` : pattern) === host;
  const parent = canonicalHost(pattern.slice(2));
  return parent !== undefined && isIP(host) === 0 && host.endsWith(`.${parent}`);
}

/** The allow rules for a target; none unless the mode is `allowlist`. */
export function findRules(policy: NetworkPolicy, { host, port }: Target): AllowRule[] {
  if (policy.mode !== "allowlist") return [];
  return policy.allow.filter((rule) => rule.ports.includes(port) && matchesHost(rule.host, host));
}
