import { spawn } from "node:child_process";
import { PlatformError } from "@sandpiper/core/errors";
import { findLastMessage } from "../container/runtime.ts";

export interface ToolOptions {
  cwd?: string;
  /** The tool is killed after this time, ms, and counts as failed with an empty message. */
  timeoutMs?: number;
  /** Kills the tool; the call then rejects with the signal's reason. */
  signal: AbortSignal;
}

export interface ToolResult {
  ok: boolean;
  stdout: Buffer;
  /** The last message on stderr. */
  problem: string;
  timedOut: boolean;
}

/** Variables that tools get. The others may hold secrets. */
const allowedVariables =
  /^(PATH|HOME|LANG|XDG_(RUNTIME_DIR|CONFIG_HOME)|DOCKER_CONFIG|REGISTRY_AUTH_FILE|SSL_CERT_(FILE|DIR)|(https?|no|all)_proxy)$/i;

const maxOutputBytes = 8 * 2 ** 20;

/**
 * Runs a program to its end. It is killed with this process, so that it does not change folders
 * that the next process clears. Throws SandboxSpecUnusable when the program is not installed.
 */
export async function runTool(argv: string[], { cwd, timeoutMs, signal }: ToolOptions): Promise<ToolResult> {
  signal.throwIfAborted();
  const variables = Object.entries(process.env).filter(([name]) => allowedVariables.test(name));
  // The signal comes when the spawning thread ends: the main thread, so with the process.
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", ...argv], {
    cwd,
    env: Object.fromEntries(variables),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const stdout: Buffer[] = [];
  let size = 0;
  let errors = "";
  let timedOut = false;
  const kill = () => child.kill("SIGKILL");
  child.stdout.on("data", (chunk: Buffer) => {
    size += chunk.length;
    if (size > maxOutputBytes) kill();
    else stdout.push(chunk);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors = (errors + text).slice(-8_192);
  });
  const onTimeout = () => {
    timedOut = true;
    kill();
  };
  const timer = timeoutMs === undefined ? undefined : setTimeout(onTimeout, timeoutMs);
  signal.addEventListener("abort", kill);
  try {
    const code = await new Promise<number | null>((resolve) => {
      child.on("error", () => resolve(127));
      child.on("close", resolve);
    });
    signal.throwIfAborted();
    if (code === 127) throw new PlatformError("ImageToolMissing", { tool: argv[0]! });
    // umoci decorates its message: `   ⨯ …`.
    const problem = findLastMessage(errors, /^\W+/);
    return { ok: code === 0, stdout: Buffer.concat(stdout), problem, timedOut };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", kill);
  }
}
