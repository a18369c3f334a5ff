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

/** Package registries and toolchains of Go, Rust, Ruby and Java. */
const registries = [
  ...["proxy.golang.org", "sum.golang.org"],
  ...["crates.io", "index.crates.io", "static.crates.io", "static.rust-lang.org"],
  ...["rubygems.org", "index.rubygems.org"],
  ...["repo.maven.apache.org", "repo1.maven.org"],
  ...["plugins.gradle.org", "plugins-artifacts.gradle.org", "services.gradle.org", "downloads.gradle.org"],
];

/** Archives of the distributions that most images come from. */
const archives = [
  ...["deb.debian.org", "security.debian.org"],
  ...["archive.ubuntu.com", "security.ubuntu.com", "ports.ubuntu.com"],
  "dl-cdn.alpinelinux.org",
];

/** Well-known git hosts, registries and archives, `mirrors`, and this machine's package sources. */
export function buildDefaultAllowlist(
  env: Readonly<Record<string, string | undefined>>,
  mirrors: readonly AllowRule[] = [],
): AllowRule[] {
  const rules = new Map<string, AllowRule>();
  for (const host of [...gitHosts, ...registries]) rules.set(host, { host, ports: [443], methods: null });
  for (const host of archives) rules.set(host, { host, ports: [80, 443], methods: null });
  for (const address of [...findAptAddresses(), ...findNpmAddresses(env), ...findPipAddresses(env)]) {
    const url = URL.parse(address);
    if (!url || !/^https?:$/.test(url.protocol) || url.hostname === "") continue;
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const port = Number(url.port || (url.protocol === "https:" ? 443 : 80));
    const rule = rules.get(host) ?? { host, ports: [], methods: null };
    if (!rule.ports.includes(port)) rule.ports.push(port);
    rules.set(host, rule);
  }
  return [...rules.values(), ...mirrors];
}
