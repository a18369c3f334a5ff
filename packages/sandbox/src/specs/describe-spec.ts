import { readFileSync } from "node:fs";
import type { SandboxSpec } from "../driver.ts";

/** Hosts that are named; agents find out about others by trying. */
const maxHosts = 30;

/**
 * Lines for an agent in a sandbox of this spec: its system, whether it can install packages, and
 * which hosts it reaches.
 */
export function describeSpec(spec: SandboxSpec): string[] {
  return [describeSystem(spec), describePackages(spec), describeNetwork(spec)];
}

function describeSystem({ root }: SandboxSpec): string {
  if (root.kind === "image") return `System: the image ${root.reference.replace(/@.*/, "")}.`;
  if (root.kind === "folder") return "System: see /etc/os-release.";
  return `System: ${readSystemName() ?? "see /etc/os-release"}; the programs in /usr are read-only.`;
}

/** Name of the machine's distribution, for sandboxes of `host`. */
function readSystemName(): string | undefined {
  try {
    return /^PRETTY_NAME="?([^"\n]{1,100})"?$/m.exec(readFileSync("/etc/os-release", "utf8"))?.[1];
  } catch {
    return undefined;
  }
}

function describePackages({ root, user, capabilities }: SandboxSpec): string {
  if (root.kind === "host" || capabilities?.length === 0)
    return "Packages: the system's package manager cannot be used. Install into your home or the project (pip install --user, npm install).";
  const isRoot = typeof user === "object" && user !== null ? user.uid === 0 : undefined;
  if (isRoot) return "Packages: you are root and can install them with the system's package manager.";
  return "Packages: as root (see `id -u`), or with sudo if the image has it, you can install them with the system's package manager.";
}

function describeNetwork({ network: { mode, allow } }: SandboxSpec): string {
  if (mode === "none") return "Network: none.";
  if (mode === "open") return "Network: all public hosts.";
  const hosts = [...new Set(allow.map(({ host }) => host))];
  const more = hosts.length > maxHosts ? ` and ${hosts.length - maxHosts} more` : "";
  return `Network: only ${hosts.slice(0, maxHosts).join(", ") || "no host"}${more}.`;
}
