import { type ChildProcessByStdio, spawn } from "node:child_process";
import { Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { CliError } from "./errors.ts";
import type { Invoker } from "./invoker.ts";

export interface GitOptions {
  cwd?: string;
  env?: Record<string, string>;
  /** Standard input of git. */
  input?: Readable | Iterable<string | Buffer>;
  /** Destination of standard error; default: the error's message. */
  stderr?: "inherit";
  /** Run as this user instead of as this process. */
  user?: Invoker | undefined;
  /** Accepted exit codes, besides 0. */
  accept?: readonly number[];
  signal?: AbortSignal | undefined;
  /** Most bytes of standard output; default: no limit. */
  maxBytes?: number;
  /** Longest time, ms, and the error after it; default: no limit. */
  limit?: { ms: number; error: () => CliError };
}

/**
 * Variables that make git ignore the configuration, attributes and hooks of the machine and the
 * user, which is safer with an untrusted tree.
 */
export const isolatedGit: Readonly<Record<string, string>> = {
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_SYSTEM: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_ATTR_NOSYSTEM: "1",
  GIT_TERMINAL_PROMPT: "0",
  LC_ALL: "C",
};

/** Variables of a calling git, which would select another repository. */
const callers =
  /^GIT_(?:DIR|WORK_TREE|INDEX_FILE|PREFIX|COMMON_DIR|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES)$/;

/**
 * Runs git and returns its standard output. For a folder that may be of strangers, use
 * `askForeignGit`. Throws CliError with git's message.
 */
export async function runGit(args: readonly string[], options: GitOptions = {}): Promise<Buffer> {
  const { cwd, env = {}, input, stderr, user, accept = [], signal, maxBytes, limit } = options;
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !callers.test(name)));
  const child = spawn("git", args, {
    ...(cwd && { cwd }),
    env: { ...inherited, ...(user && { HOME: user.home }), ...env },
    stdio: ["pipe", "pipe", stderr ?? "pipe"],
    ...(user && { uid: user.uid, gid: user.gid }),
    ...(signal && { signal }),
  }) as ChildProcessByStdio<Writable, Readable, Readable | null>;
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  let bytes = 0;
  child.stdout.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (maxBytes === undefined || bytes <= maxBytes) out.push(chunk);
    else child.kill("SIGKILL");
  });
  child.stderr?.on("data", (chunk: Buffer) => err.push(chunk));
  const exit = new Promise<number>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 128));
  });
  // If git ends early and closes the pipe, its exit code is the error.
  const fed = pipeline(input instanceof Readable ? input : Readable.from(input ?? []), child.stdin).catch(
    () => {},
  );
  let code: number;
  let late = false;
  const timer =
    limit &&
    setTimeout(() => {
      late = child.kill("SIGKILL");
    }, limit.ms);
  try {
    [code] = await Promise.all([exit, fed]);
  } catch (error) {
    signal?.throwIfAborted();
    throw (error as NodeJS.ErrnoException).code === "ENOENT"
      ? new CliError("git is missing: install it, then run this again.", { cause: error })
      : error;
  } finally {
    clearTimeout(timer);
  }
  if (limit && late) throw limit.error();
  const command = args.find((arg, at) => !arg.startsWith("-") && args[at - 1] !== "-c");
  if (maxBytes !== undefined && bytes > maxBytes)
    throw new CliError(`git ${command} failed: its answer has more than ${maxBytes} bytes`);
  if (code === 0 || accept.includes(code)) return Buffer.concat(out);
  const said = Buffer.concat(err)
    .toString()
    .trim()
    .replace(/^(fatal|error): /, "");
  throw new CliError(`git ${command} failed${said ? `: ${said}` : ` with exit code ${code}`}`);
}
