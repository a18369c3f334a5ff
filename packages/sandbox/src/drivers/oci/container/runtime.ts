import { execFile } from "node:child_process";
import { basename } from "node:path";
import { promisify } from "node:util";
import { PlatformError } from "@sandpiper/core/errors";
import { type CgroupLayout, detectCgroupLayout } from "../cgroup/cgroups.ts";

/** An OCI runtime of this machine. Every runtime but crun is treated like runc. */
export interface Runtime {
  kind: "crun" | "runc";
  path: string;
  version: string;
}

/**
 * Finds the runtime: `wanted` (name or path), else crun, else runc. crun is skipped on a hybrid
 * cgroup mount with a visible v2 part, where it does not work. Throws SandboxFailed when none
 * works.
 */
export async function findRuntime(
  wanted?: string,
  layout: CgroupLayout = detectCgroupLayout(),
): Promise<Runtime> {
  const found: Runtime[] = [];
  for (const name of wanted === undefined ? ["crun", "runc"] : [wanted, "runc"]) {
    const runtime = await queryRuntime(name);
    if (runtime) found.push(runtime);
    else if (name === wanted) throw new PlatformError("RuntimeUnusable", { runtime: wanted });
  }
  if (found.length === 0) throw new PlatformError("RuntimeMissing");
  const usable = found.find((runtime) => runtime.kind !== "crun" || layout !== "hybrid");
  if (!usable) throw new PlatformError("CrunBlocked");
  return usable;
}

async function queryRuntime(name: string): Promise<Runtime | undefined> {
  try {
    const { stdout } = await promisify(execFile)(name, ["--version"], { timeout: 5_000 });
    const first = stdout.split("\n", 1)[0] ?? "";
    const version = /^\S+ version (\S+)$/.exec(first)?.[1];
    if (version === undefined || !(/^spec: /m.test(stdout) || (await hasFeatures(name)))) return undefined;
    const kind = first.startsWith("crun") || basename(name) === "crun" ? "crun" : "runc";
    return { kind, path: name, version };
  } catch {
    return undefined;
  }
}

/** True when a program supports the OCI command `features`; older runtimes print `spec:`. */
async function hasFeatures(name: string): Promise<boolean> {
  try {
    const { stdout } = await promisify(execFile)(name, ["features"], { timeout: 5_000 });
    return typeof JSON.parse(stdout).ociVersionMin === "string";
  } catch {
    return false;
  }
}
