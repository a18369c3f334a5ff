import type { AllowRule } from "../driver.ts";
import { findAptAddresses } from "./package-sources/apt.ts";
import { findNpmAddresses } from "./package-sources/npm.ts";
import { findPipAddresses } from "./package-sources/pip.ts";

/** Well-known hosts of git repositories, and those that they serve archives and release files from. */
const gitHosts = [
  "github.com",
  "*.github.com",
  "*.githubusercontent.com",
  "gitlab.com",
  "bitbucket.org",
  "codeberg.org",
  "git.sr.ht",
];

/**
 * What sandboxes may reach where nothing else is configured: well-known git hosts, and wherever this machine itself gets packages from (apt,
 * npm and pip, by their configuration in files and environment).
 */
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
