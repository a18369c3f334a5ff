import { randomBytes } from "node:crypto";
import { finished } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { ExecRequest, SandboxProcess } from "../../driver.ts";
import { resolveInside } from "../../files/resolve-inside.ts";
import type { Sandbox } from "../../sandbox.ts";
import { exitCode, runToEnd } from "../run.ts";
import type { OutputChunker } from "./output-chunker.ts";

/** Maximum length of one argument; the limit of Linux is 128 KiB. */
const maxArgumentChars = 30_000;

/**
 * Prints its process id as the first line of stderr (removed by `readLeader`), creates the third
 * argument, enters the folder and becomes the shell. A command longer than an argument comes in
 * parts.
 */
const script = `echo "$1 $$" >&2
[ -z "$3" ] || mkdir -p -- "$3" 2>/dev/null
cd -- "$2" 2>/dev/null || { echo "The folder $2 does not exist or cannot be entered." >&2; exit 1; }
command -v bash >/dev/null 2>&1 && set -- bash "$@" || set -- sh "$@"
shell=$1; shift 4
[ $# -gt 1 ] && exec "$shell" -c 'c=; for p; do c=$c$p; done; set --; unset p; eval "$c"' "$shell" "$@"
exec "$shell" -c -- "$1"`;

/**
 * Ends a process group by SIGTERM, after two seconds by SIGKILL. (Not every `kill` supports `--`.)
 */
const endScript = `kill -TERM "-$1" 2>/dev/null || exit 0
i=0
while [ $i -lt 20 ] && kill -0 "-$1" 2>/dev/null; do sleep 0.1; i=$((i+1)); done
kill -KILL "-$1" 2>/dev/null`;

/** Limit until a killed process ends, ms: a frozen process cannot die. */
const killTimeoutMs = 4_000;

/** Reason of an abort that a client asked for; it needs no explanation. */
export const stopped = Symbol("stopped");

export interface CommandRequest {
  command: string;
  cwd: string | null;
  /** Absolute path of a folder that is created if it is missing. */
  folder?: string | undefined;
}

export interface Ending {
  /** -15 when the command was stopped, -1 when it was aborted for another reason. */
  exitCode: number;
  /** Why it was aborted, else empty. */
  reason: string;
}

/**
 * Runs a command in a sandbox to its end. An abort of `signal`, with a sentence as its reason, ends
 * the whole process group. While `frozen` gives true no command can run in the sandbox, so the
 * process is killed from outside. Throws what `exec` throws.
 */
export async function runCommand(
  sandbox: Sandbox,
  { command, cwd, folder: created = "" }: CommandRequest,
  output: OutputChunker,
  signal: AbortSignal,
  frozen: () => Promise<boolean>,
): Promise<Ending> {
  const { workingDir } = sandbox.spec;
  const mark = randomBytes(9).toString("hex");
  const folder = cwd === null ? workingDir : resolveInside(workingDir, cwd);
  const child = await sandbox.exec({
    argv: ["sh", "-c", script, "sh", mark, folder, created, ...splitCommand(command)],
    cwd: "/",
  });
  child.stdin.on("error", () => {});
  child.stdin.end();
  const { promise: aborted, resolve: abort } = Promise.withResolvers<"aborted">();
  const onAbort = () => abort("aborted");
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) onAbort();
  // The exit comes when the pipes were read; the streams may still have buffered data.
  const ended = Promise.allSettled([child.stdout, child.stderr].map((stream) => finished(stream))).then(
    () => child.exit,
  );
  output.read("stdout", child.stdout);
  const leader = readLeader(child, mark, output);
  try {
    const status = await Promise.race([ended, aborted]);
    if (status !== "aborted") return { exitCode: exitCode(status), reason: "" };
    await endCommand(sandbox, child, leader(), await frozen());
    await Promise.race([ended, delay(killTimeoutMs, undefined, { ref: false })]);
    return toEnding(signal);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** The ending of an aborted command. */
export function toEnding({ reason }: AbortSignal): Ending {
  return reason === stopped ? { exitCode: -15, reason: "" } : { exitCode: -1, reason: String(reason) };
}

async function endCommand(
  sandbox: Sandbox,
  child: SandboxProcess,
  leader: string | undefined,
  frozen: boolean,
): Promise<void> {
  if (leader !== undefined && !frozen) {
    const request: ExecRequest = {
      argv: [...(sandbox.shell ?? ["sh"]), "-c", endScript, "sh", leader],
      cwd: "/",
    };
    // Fails when the sandbox is gone or at its process limit.
    await runToEnd(sandbox, request, { timeoutMs: killTimeoutMs, maxOutputBytes: 1_024 }).catch(() => {});
  }
  child.kill();
}

/** Removes the script's line from stderr; returns a function that returns the process id in it. */
function readLeader(
  { stderr }: SandboxProcess,
  mark: string,
  output: OutputChunker,
): () => string | undefined {
  let first: Buffer | undefined = Buffer.alloc(0);
  let leader: string | undefined;
  const settle = () => {
    if (first === undefined) return;
    const found = new RegExp(`^${mark} (\\d{1,10})\\n`).exec(first.toString("latin1"));
    leader = found?.[1];
    const rest = first.subarray(found?.[0].length ?? 0);
    first = undefined;
    stderr.off("data", take);
    output.take("stderr", rest);
    output.read("stderr", stderr);
  };
  const take = (chunk: Buffer) => {
    first = Buffer.concat([first!, chunk]);
    if (first.includes("\n") || first.length > 100) settle();
  };
  stderr.on("data", take);
  stderr.once("end", settle);
  return () => leader;
}

function splitCommand(command: string): string[] {
  if (command.length <= maxArgumentChars) return [command];
  const found: string[] = [];
  for (let at = 0; at < command.length; ) {
    let next = Math.min(at + maxArgumentChars, command.length);
    // Does not split a surrogate pair.
    if (/[\uD800-\uDBFF]/.test(command[next - 1]!)) next += 1;
    found.push(command.slice(at, next));
    at = next;
  }
  return found;
}
