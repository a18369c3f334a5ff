import type { AllowRule } from "../driver.ts";
import { findAptAddresses } from "./package-sources/apt.ts";
import { findNpmAddresses } from "./package-sources/npm.ts";
import { findPipAddresses } from "./package-sources/pip.ts";

/** Well-known git hosts and their download hosts. */
const gitHosts = [
  "github.com",
  "*.github.com",
  "*.githubusercontent.com",
  "gitlab.com",
  "bitbucket.org",
  "codeberg.org",
  "git.sr.ht",
];

/** Well-known git hosts, and this machine's package sources (apt, npm, pip). */
export function buildDefaultAllowlist(env: Readonly<Record<string, string | undefined>>): AllowRule[] {
  const rules = new Map<string, AllowRule>();
  for (const host of gitHosts) rules.set(host, { host, ports: [443], methods: null });
  for (const address of [...findAptAddresses(), ...findNpmAddresses(env), ...findPipAddresses(env)]) {
    const url = URL.parse(address);
    if (!url || !/^https?:$/.test(url.protocol) || url.hostname === "") continue;
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const port = Number(url.port || (url.protocol === "https:" ? 443 : 80));
    const rule = rules.get(host) ?? { host, ports: [], methods: null };
    if (!rule.ports.includes(port)) rule.ports.push(port);
    rules.set(host, rule);
  }
  return [...rules.values()];
}
