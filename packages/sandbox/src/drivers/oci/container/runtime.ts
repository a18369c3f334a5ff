import { execFile } from "node:child_process";
import type { Socket } from "node:net";
import { basename } from "node:path";
import { kill } from "node:process";
import { promisify } from "node:util";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import { spawnPiped } from "../../../kernel/spawn.ts";
import { type CgroupLayout, cgroupLayout } from "../cgroup/cgroups.ts";

/** An OCI runtime found on this machine. `kind` decides which of its habits apply; every other runtime is treated like runc. */
export interface Runtime {
  kind: "crun" | "runc";
  path: string;
  version: string;
}

const installHint = "install one with `apt-get install crun` (or `runc`) and start again";

/**
 * Finds the runtime to use: `wanted` (name or path), else crun, else runc. crun is passed over where it cannot work:
 * on a hybrid cgroup mount whose v2 part is visible.
 * Throws SandboxFailed when there is none that works.
 */
export async function findRuntime(wanted?: string, layout: CgroupLayout = cgroupLayout()): Promise<Runtime> {
  const found: Runtime[] = [];
  for (const name of wanted === undefined ? ["crun", "runc"] : [wanted, "runc"]) {
    const runtime = await askVersion(name);
    if (runtime) found.push(runtime);
    else if (name === wanted)
      throw new PlatformError(
        "SandboxFailed",
        `${wanted} does not run here as an OCI runtime; ${installHint}.`,
      );
  }
  if (found.length === 0)
    throw new PlatformError("SandboxFailed", `No OCI runtime is installed; ${installHint}.`);
  const usable = found.find((runtime) => runtime.kind !== "crun" || layout !== "hybrid");
  if (!usable) {
    throw new PlatformError(
      "SandboxFailed",
      "crun does not work while /sys/fs/cgroup/unified is visible beside cgroup v1; start the server through scripts/isolate, or install runc with `apt-get install runc`.",
    );
  }
  return usable;
}

async function askVersion(name: string): Promise<Runtime | undefined> {
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

/** Whether a program answers to `features` as the OCI runtime specification has it; those that do not may say `spec:` with their version. */
async function hasFeatures(name: string): Promise<boolean> {
  try {
    const { stdout } = await promisify(execFile)(name, ["features"], { timeout: 5_000 });
    return typeof JSON.parse(stdout).ociVersionMin === "string";
  } catch {
    return false;
  }
}

/** What a runtime command gave. `output` is its stdout; `reason` one line from its stderr, empty when it said nothing. */
export interface RuntimeResult {
  code: number;
  output: string;
  reason: string;
}

/**
 * Runs a command to its end, that of everything that it starts.
 * Never rejects; a command that takes longer than `timeoutMs` is killed and gives code 124.
 */
export async function runCommand(
  argv: string[],
  { timeoutMs }: { timeoutMs: number },
): Promise<RuntimeResult> {
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
  // It has a process group of its own.
  const timer = setTimeout(() => {
    timedOut = true;
    kill(-child.pid, "SIGKILL");
  }, timeoutMs);
  const closed = [stdout, stderr].map(
    (pipe) => new Promise((resolve) => pipe.on("error", () => {}).once("close", resolve)),
  );
  const code = await child.exit;
  clearTimeout(timer);
  await Promise.all(closed);
  if (timedOut) return { code: 124, output, reason: `no answer within ${timeoutMs / 1000} s` };
  return { code, output, reason: reasonOf(errors) };
}

/** The message of a runtime's last line of stderr: crun writes plain text, runc `time=… level=… msg="…"`. */
export function reasonOf(stderr: string): string {
  const line = stderr.trimEnd().split("\n").at(-1) ?? "";
  const message = /\bmsg=("(?:[^"\\]|\\.)*")/.exec(line)?.[1];
  if (message === undefined) return line;
  try {
    return String(JSON.parse(message));
  } catch {
    return message;
  }
}
