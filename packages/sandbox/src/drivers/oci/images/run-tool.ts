import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { findLastMessage } from "../../common/run-program.ts";
import { listenInside } from "../../common/sockets/ports.ts";

export interface ToolOptions {
  cwd?: string;
  /** The tool is killed after this time, ms, and counts as failed with an empty message. */
  timeoutMs?: number;
  /** Kills the tool; the call then rejects with the signal's reason. */
  signal: AbortSignal;
  /** The only network of the tool; undefined: the server's. */
  network?: ToolNetwork | undefined;
}

/** A network of a tool's own, where nothing but these listeners exists. */
export interface ToolNetwork {
  /** Added to the tool's environment. */
  env: Record<string, string>;
  /** Called for each connection, by its port on 127.0.0.1. */
  listeners: Map<number, (connection: Duplex) => void>;
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
  /^(PATH|HOME|LANG|XDG_(RUNTIME_DIR|CONFIG_HOME)|DOCKER_CONFIG|REGISTRY_AUTH_FILE|SSL_CERT_(FILE|DIR))$/i;

const maxOutputBytes = 8 * 2 ** 20;

/** Runs its arguments in a new network as soon as a line comes on descriptor 3. */
const inOwnNetwork = [
  "unshare",
  "--net",
  "--",
  "sh",
  "-c",
  'echo >&3 && read -r go <&3 && exec "$@" 3>&-',
  "sh",
];

/**
 * Runs a program to its end. It is killed with this process, so that it does not change folders
 * that the next process clears. Throws SandboxSpecUnusable when the program is not installed.
 */
export async function runTool(
  argv: string[],
  { cwd, timeoutMs, signal, network }: ToolOptions,
): Promise<ToolResult> {
  signal.throwIfAborted();
  const variables = Object.entries(process.env).filter(([name]) => allowedVariables.test(name));
  // The signal comes when the spawning thread ends: the main thread, so with the process.
  const wrapped = [...(network ? inOwnNetwork : []), ...argv];
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", ...wrapped], {
    cwd,
    env: { ...Object.fromEntries(variables), ...network?.env },
    stdio: ["ignore", "pipe", "pipe", network ? "pipe" : "ignore"],
  });
  let failed: unknown;
  const listeners = network
    ? openNetwork(child, network).catch((error: unknown) => {
        failed = error;
        child.kill("SIGKILL");
        return [];
      })
    : [];
  const stdout: Buffer[] = [];
  let size = 0;
  let errors = "";
  let timedOut = false;
  const kill = () => child.kill("SIGKILL");
  child.stdout!.on("data", (chunk: Buffer) => {
    size += chunk.length;
    if (size > maxOutputBytes) kill();
    else stdout.push(chunk);
  });
  child.stderr!.setEncoding("utf8").on("data", (text: string) => {
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
    if (failed) throw failed;
    if (code === 127) throw new PlatformError("ImageToolMissing", { tool: argv[0]! });
    // umoci decorates its message: `   ⨯ …`.
    const problem = findLastMessage(errors, /^\W+/);
    return { ok: code === 0, stdout: Buffer.concat(stdout), problem, timedOut };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", kill);
    for (const listener of await listeners) listener.close();
  }
}

/** Listens in the network of a tool, and then lets the tool begin. */
async function openNetwork(child: ChildProcess, { listeners }: ToolNetwork): Promise<{ close(): void }[]> {
  const gate = child.stdio[3] as Duplex;
  gate.on("error", () => {});
  const opened: { close(): void }[] = [];
  // A tool that cannot start closes the gate without a word.
  const [ready] = (await Promise.race([once(gate, "data"), once(gate, "close")])) as [unknown];
  if (!Buffer.isBuffer(ready)) return opened;
  try {
    for (const [port, accept] of listeners)
      opened.push(await listenInside(child.pid!, port, accept, { raise: true }));
  } catch (error) {
    for (const listener of opened) listener.close();
    throw error;
  }
  gate.end("go\n");
  return opened;
}
