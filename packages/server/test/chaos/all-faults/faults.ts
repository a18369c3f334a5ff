import { readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Gate } from "@sandpiper/core/test/support/gate";
import { getInstallationGroup, listGroupMembers } from "@sandpiper/sandbox/drivers/oci/cgroup/cgroups";
import { type ChaosState, queryStored } from "./state.ts";

/** A fault outside the server. */
export interface Fault {
  name: string;
  /** Starts the fault; returns the function that ends it. */
  begin(): Promise<() => Promise<void>>;
  /** Whether the server may be killed during the fault; it cannot start on a full disk. */
  killable: boolean;
}

const done = async () => {};

/** `store` is a file system of the database's own. */
export function listFaults(
  state: ChaosState,
  store: string,
  models: Gate,
  mcp: Gate,
  random: () => number,
): Fault[] {
  const closeGate = (name: string, gate: Gate): Fault => ({
    name,
    killable: true,
    async begin() {
      await gate.close();
      return () => gate.open();
    },
  });
  return [
    { name: "the disk is full", killable: false, begin: async () => fillDisk(store) },
    closeGate("the model's endpoint is away", models),
    closeGate("a remote MCP server is away", mcp),
    {
      name: "sandboxes are killed",
      killable: true,
      async begin() {
        // With the first process all others end.
        for (const members of pickRandom(listProcesses(state, ["plain", "whole", "talked"]), 4, random))
          kill(Math.min(...members));
        return done;
      },
    },
    {
      name: "MCP servers in sandboxes are killed",
      killable: true,
      async begin() {
        for (const members of listProcesses(state, ["talked", "browsing"]))
          for (const pid of members) if (isMcp(pid)) kill(pid);
        return done;
      },
    },
  ];
}

function fillDisk(folder: string): () => Promise<void> {
  const ballast = join(folder, "ballast");
  const { bavail, bsize } = statfsSync(folder);
  try {
    writeFileSync(ballast, Buffer.alloc(Number(bavail) * Number(bsize) + (1 << 20)));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  }
  return async () => rmSync(ballast);
}

/** Processes of the sandboxes in which the conversations of these users work. */
function listProcesses({ dataDir, active: going }: ChaosState, names: readonly string[]): number[][] {
  const group = getInstallationGroup(join(dataDir, "sandboxes"));
  return [...going].flatMap(({ id, worker }) => {
    const [row] = names.includes(worker.name)
      ? queryStored(dataDir, "SELECT sandbox_id AS box FROM conversations WHERE id = ?", id)
      : [];
    const members = row ? listGroupMembers(`${group}/${row.box}`) : [];
    return members.length > 0 ? [members] : [];
  });
}

function isMcp(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("Adds a line to a file");
  } catch {
    return false;
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}

export function pickRandom<T>(list: readonly T[], count: number, random: () => number): T[] {
  return list
    .map((item) => ({ item, place: random() }))
    .sort((a, b) => a.place - b.place)
    .slice(0, count)
    .map(({ item }) => item);
}
