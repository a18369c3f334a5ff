import { spawn } from "node:child_process";
import { PlatformError } from "@sandpiper/core/errors";

export interface ToolOptions {
  cwd?: string;
  /** The tool is killed after this time, ms; it then counts as failed with an empty message. */
  timeoutMs?: number;
  /** Kills the tool; the call then rejects with the signal's reason. */
  signal: AbortSignal;
}

export interface ToolResult {
  ok: boolean;
  stdout: Buffer;
  /** The last line that the tool wrote to stderr, without its decoration. */
  problem: string;
  timedOut: boolean;
}

/** What the tools need of the server's environment. Nothing else reaches them: it holds secrets. */
const passedOn =
  /^(PATH|HOME|LANG|XDG_(RUNTIME_DIR|CONFIG_HOME)|DOCKER_CONFIG|REGISTRY_AUTH_FILE|SSL_CERT_(FILE|DIR)|(https?|no|all)_proxy)$/i;

const maxOutputBytes = 8 * 2 ** 20;

/**
 * Runs a program to its end. It dies with this process, so that nothing goes on working in folders that the next process clears away.
 * Throws PlatformError SandboxSpecUnusable when the program is not installed.
 */
export async function runTool(argv: string[], { cwd, timeoutMs, signal }: ToolOptions): Promise<ToolResult> {
  signal.throwIfAborted();
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => passedOn.test(name)));
  // Of this thread: the main thread lives as long as the process.
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", ...argv], {
    cwd,
    env,
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
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => {
          timedOut = true;
          kill();
        }, timeoutMs);
  signal.addEventListener("abort", kill);
  try {
    const code = await new Promise<number | null>((resolve) => {
      child.on("error", () => resolve(127));
      child.on("close", resolve);
    });
    signal.throwIfAborted();
    if (code === 127) throw missing(argv[0]!);
    return { ok: code === 0, stdout: Buffer.concat(stdout), problem: lastLine(errors), timedOut };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", kill);
  }
}

function missing(tool: string): PlatformError {
  return new PlatformError(
    "SandboxSpecUnusable",
    `Images need the program ${tool}: install it with \`apt-get install skopeo umoci util-linux\`.`,
  );
}

/** skopeo ends with `time=… level=fatal msg="…"`, umoci with `   ⨯ …`. */
function lastLine(stderr: string): string {
  const line = stderr.trimEnd().split("\n").at(-1) ?? "";
  const message = /\bmsg=("(?:[^"\\]|\\.)*")/.exec(line)?.[1];
  if (message === undefined) return line.replace(/^\W+/, "");
  try {
    return String(JSON.parse(message));
  } catch {
    return message;
  }
}
