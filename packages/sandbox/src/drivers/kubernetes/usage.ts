import { PlatformError } from "@sandpiper/core/errors";
import type { FileBounds, SandboxUsage } from "../../driver.ts";
import { runToEnd } from "../../shell/run.ts";
import type { Connection } from "./connections.ts";
import { helperPath } from "./helper-program.ts";

/** Maximum time of one walk over the files, ms. A walk that takes longer gives a lower bound. */
const walkMs = 30_000;

/** Files of a pod's own control group, of version 2 and of version 1. */
const groupFiles = [
  ...["memory.current", "memory.stat", "cpu.stat", "pids.current"],
  ...["memory/memory.usage_in_bytes", "memory/memory.stat", "cpuacct/cpuacct.usage", "pids/pids.current"],
].map((name) => `/sys/fs/cgroup/${name}`);

/**
 * Asks the helper of a running sandbox for its usage. The count has no files outside of the volume,
 * which the cluster limits (`ephemeral-storage`).
 */
export async function measureUsage(connection: Connection, bounds: FileBounds): Promise<SandboxUsage> {
  const { facts } = connection;
  const folders = [facts.workingDir, facts.user.home].filter((path) => path !== "/");
  const most = [bounds.diskBytes, bounds.files, walkMs].map(String);
  const [groups, files] = await Promise.all([
    ask(connection, ["read", ...groupFiles]),
    ask(connection, ["measure", ...most, ...folders]),
  ]);
  const [diskBytes = 0, count = 0, partial = 0] = files.trim().split(" ").map(Number);
  return { ...parseGroups(groups), diskBytes, files: count, isPartial: partial !== 0 };
}

/**
 * Parses the control group's files. Memory is without inactive files, which the kernel reclaims.
 */
function parseGroups(text: string): Pick<SandboxUsage, "memoryBytes" | "cpuMs" | "pids"> {
  const lines = text.trim().split("\n");
  const number = (line: string | undefined) => Number(/^\d+$/.exec(line ?? "")?.[0] ?? 0);
  const inactive = /^(?:total_)?inactive_file (\d+)$/gm;
  const cache = Math.max(0, ...Array.from(text.matchAll(inactive), ([, bytes]) => Number(bytes)));
  const micro = /^usage_usec (\d+)$/m.exec(text)?.[1];
  return {
    memoryBytes: Math.max(0, number(lines[0]) - cache),
    cpuMs: Math.round(micro === undefined ? number(lines.at(-2)) / 1e6 : Number(micro) / 1e3),
    pids: number(lines.at(-1)),
  };
}

async function ask({ resident, facts }: Connection, argv: string[]): Promise<string> {
  const exec = async () => resident.run({ argv: [helperPath, ...argv], cwd: "/", env: facts.env });
  const { code, stdout, stderr } = await runToEnd({ exec }, { argv }, { timeoutMs: walkMs + 10_000 });
  if (code === 0) return stdout.toString();
  const reason = stderr.toString().trim() || `the count ended with code ${code}`;
  throw new PlatformError("DiskUsageFailed", { reason });
}
