import { execFile } from "node:child_process";
import type { Socket } from "node:net";
import { basename } from "node:path";
import { promisify } from "node:util";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import { spawnPiped } from "../../../kernel/spawn.ts";
import { sendSignal } from "../../common/processes.ts";
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

export interface CommandResult {
  code: number;
  /** stdout */
  output: string;
  /** The last message on stderr; empty when there is none. */
  reason: string;
}

/**
 * Runs a program and everything that it starts to the end. Never rejects; a program that takes
 * longer than `timeoutMs` is killed and gets the code 124.
 */
export async function runProgram(
  argv: string[],
  { timeoutMs }: { timeoutMs: number },
): Promise<CommandResult> {
  let output = "";
  let errors = "";
  let child: ReturnType<typeof spawnPiped>;
  try {
    child = spawnPiped({ argv, descriptors: ["null", "out", "out"] });
  } catch (error) {
    return { code: 127, output, reason: errorText(error) };
  }
  const [stdout, stderr] = child.pipes.slice(1) as [Socket, Socket];
  stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  stderr.setEncoding("utf8").on("data", (text: string) => {
    errors = (errors + text).slice(-8_192);
  });
  let timedOut = false;
  // It has its own process group.
  const timer = setTimeout(() => {
    timedOut = true;
    sendSignal(-child.pid, "SIGKILL");
  }, timeoutMs);
  const closed = [stdout, stderr].map(
    (pipe) => new Promise((resolve) => pipe.on("error", () => {}).once("close", resolve)),
  );
  const code = await child.exit;
  clearTimeout(timer);
  await Promise.all(closed);
  if (timedOut) return { code: 124, output, reason: `no answer within ${timeoutMs / 1000} s` };
  return { code, output, reason: findLastMessage(errors) };
}

/**
 * The message in the last line of stderr: `msg="…"` when it has one (runc, skopeo), else the line
 * without `decoration`.
 */
export function findLastMessage(stderr: string, decoration = /^/): string {
  const line = stderr.trimEnd().split("\n").at(-1) ?? "";
  const message = /\bmsg=("(?:[^"\\]|\\.)*")/.exec(line)?.[1];
  if (message === undefined) return line.replace(decoration, "");
  try {
    return String(JSON.parse(message));
  } catch {
    return message;
  }
}
