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

/** Runs git and returns its standard output. Throws CliError with git's message. */
export async function runGit(args: readonly string[], options: GitOptions = {}): Promise<Buffer> {
  const { cwd, env = {}, input, stderr, user, accept = [], signal } = options;
  // The caller's GIT_DIR would select another repository.
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^GIT_(DIR|WORK_TREE|INDEX_FILE|PREFIX)$/.test(name)),
  );
  const child = spawn("git", args, {
    ...(cwd && { cwd }),
    env: { ...inherited, ...(user && { HOME: user.home }), ...env },
    stdio: ["pipe", "pipe", stderr ?? "pipe"],
    ...(user && { uid: user.uid, gid: user.gid }),
    ...(signal && { signal }),
  }) as ChildProcessByStdio<Writable, Readable, Readable | null>;
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
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
  try {
    [code] = await Promise.all([exit, fed]);
  } catch (error) {
    signal?.throwIfAborted();
    throw (error as NodeJS.ErrnoException).code === "ENOENT"
      ? new CliError("git is missing: install it, then run this again.", { cause: error })
      : error;
  }
  if (code === 0 || accept.includes(code)) return Buffer.concat(out);
  const said = Buffer.concat(err)
    .toString()
    .trim()
    .replace(/^(fatal|error): /, "");
  throw new CliError(
    `git ${args.find((arg) => !arg.startsWith("-"))} failed${said ? `: ${said}` : ` with exit code ${code}`}`,
  );
}
