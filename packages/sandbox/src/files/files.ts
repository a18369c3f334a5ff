import { randomBytes } from "node:crypto";
import { PlatformError } from "@sandpiper/core/errors";
import type { ExecRequest } from "../driver.ts";
import type { Sandbox } from "../sandbox.ts";
import type { RunOptions, RunResult } from "../shell/run.ts";
import { runToEnd } from "../shell/run.ts";
import { codes, listScript, readScript, statScript, writeScript } from "./file-scripts.ts";

/**
 * Files of a sandbox, for tools and routes. Everything goes through `exec` with the rights of the sandbox's user, one exec an operation,
 * never by a path of the host; so a link inside a sandbox leads nowhere but inside that sandbox.
 * Relative paths start at the spec's working directory. Every function throws InvalidParameter for a path with a NUL or an empty one,
 * and what `exec` throws.
 */
export type CommandRunner = Pick<Sandbox, "exec" | "shell">;

/** `unreadable`: no permission, or neither a file nor a directory. `too_large` tells the size in bytes. */
export type FileContent =
  | { kind: "file"; content: Buffer }
  | { kind: "missing" }
  | { kind: "directory" }
  | { kind: "too_large"; size: number }
  | { kind: "unreadable"; reason: string };

/** Reads a whole file of at most `maxBytes` (default 16 MiB). */
export async function readFile(
  sandbox: CommandRunner,
  path: string,
  options: { maxBytes?: number; signal?: AbortSignal } = {},
): Promise<FileContent> {
  const { maxBytes = 16 * 2 ** 20, signal } = options;
  // One byte more than wanted tells a file that is too large without asking for its size first.
  const result = await runScript(sandbox, readScript, [checkPath(path), String(maxBytes + 1)], {
    maxOutputBytes: maxBytes + 1,
    ...(signal && { signal }),
  });
  switch (result.code) {
    case 0:
      if (result.stdout.length <= maxBytes) return { kind: "file", content: result.stdout };
      return { kind: "too_large", size: (await stat(sandbox, path))?.size ?? result.stdout.length };
    case codes.missing:
      return { kind: "missing" };
    case codes.directory:
      return { kind: "directory" };
    case codes.special:
      return { kind: "unreadable", reason: "it is neither a file nor a directory" };
    default:
      return { kind: "unreadable", reason: failureReason(result) };
  }
}

/**
 * Writes a file, making the folders above it. Readers see the old content or the new one, never a part: it is written beside and moved.
 * The mode of an existing file stays; a link is followed. Only where the folder takes no new files is it written in place.
 * Throws InvalidParameter when the path is a directory or may not be written.
 */
export async function writeFile(
  sandbox: CommandRunner,
  path: string,
  content: Buffer | string,
  options: { signal?: AbortSignal } = {},
): Promise<void> {
  const input = typeof content === "string" ? Buffer.from(content) : content;
  const result = await runScript(
    sandbox,
    writeScript,
    [checkPath(path), String(input.length), randomSuffix(), "all"],
    {
      input,
      ...options,
    },
  );
  if (result.code === 0 || result.code === codes.inPlace) return;
  const why = result.code === codes.directory ? "it is a directory" : failureReason(result);
  throw new PlatformError("InvalidParameter", `${path} cannot be written: ${why}.`);
}

export interface FileStat {
  kind: "file" | "directory" | "other";
  /** Bytes. */
  size: number;
  /** Permission bits. */
  mode: number;
  /** Time of the last change, ms since the epoch. */
  modifiedAt: number;
}

/** Facts about what a path leads to, links followed; undefined when there is nothing. */
export async function stat(sandbox: CommandRunner, path: string): Promise<FileStat | undefined> {
  const result = await runScript(sandbox, statScript, [checkPath(path)]);
  if (result.code === codes.missing) return undefined;
  const [raw, size, seconds] = result.stdout.toString().trim().split(" ");
  if (result.code !== 0 || raw === undefined)
    throw new PlatformError("InvalidParameter", `${path} cannot be examined: ${failureReason(result)}.`);
  const bits = Number.parseInt(raw, 16);
  const kind = getFileKind(bits);
  return {
    kind: kind === "link" ? "other" : kind,
    size: Number(size),
    mode: bits & 0o7777,
    modifiedAt: Number(seconds) * 1_000,
  };
}

/** What a file's type and permission bits say it is. */
export function getFileKind(bits: number): "file" | "directory" | "link" | "other" {
  const type = bits & 0o170000;
  return type === 0o100000 ? "file" : type === 0o040000 ? "directory" : type === 0o120000 ? "link" : "other";
}

export interface Listing {
  /** Visible entries up to two levels below, sorted by path. `path` is below the listed folder. */
  entries: { path: string; directory: boolean }[];
  /** Hidden entries directly in the folder; they and what is below them are not among `entries`. */
  hidden: number;
  /** There are more entries than were read. */
  truncated: boolean;
}

/** Lists a folder two levels deep, links followed. Undefined when it is not there or no directory. */
export async function list(sandbox: CommandRunner, path: string): Promise<Listing | undefined> {
  const result = await runScript(sandbox, listScript, [checkPath(path)], { maxOutputBytes: 4 * 2 ** 20 });
  if (result.code === codes.missing) return undefined;
  if (result.code === codes.denied)
    throw new PlatformError("InvalidParameter", `${path} cannot be listed: ${failureReason(result)}.`);
  // Records end in NUL, so the piece after the last one is empty or cut off.
  const records = result.stdout.toString().split("\0").slice(0, -1);
  const entries: Listing["entries"] = [];
  let hidden = 0;
  for (const record of records) {
    const name = record.slice(3);
    if (record[0] !== "h") entries.push({ path: name, directory: record[0] === "d" });
    else if (!name.includes("/")) hidden++;
  }
  entries.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { entries, hidden, truncated: result.truncated };
}

/** Time for a script whose caller names none, ms: a sandbox may be paused under it, and then nothing goes on there. */
export const scriptTimeoutMs = 60_000;

/**
 * Runs a script with paths as its arguments: they are never part of its text. Throws what `exec` throws, and SandboxFailed when it does not end in a
 * minute and the caller has named no time.
 */
export async function runScript(
  sandbox: CommandRunner,
  text: string,
  args: string[],
  options: RunOptions = {},
): Promise<RunResult> {
  const result = await runToEnd(sandbox, toScriptCommand(sandbox, text, args), {
    timeoutMs: scriptTimeoutMs,
    ...options,
  });
  if (result.timedOut && options.timeoutMs === undefined) throw unanswered();
  if (!result.timedOut) await checkAlive(sandbox, result.code);
  return result;
}

/**
 * To be called with the exit code of a script. A script that could not begin, or was killed, says nothing about files where its sandbox is gone:
 * throws SandboxFailed then.
 */
export async function checkAlive(sandbox: CommandRunner, code: number): Promise<void> {
  if (code < 126) return;
  const { code: again } = await runToEnd(
    sandbox,
    { ...toScriptCommand(sandbox, ":", []), cwd: "/" },
    { timeoutMs: scriptTimeoutMs },
  );
  if (again !== 0)
    throw new PlatformError(
      "SandboxFailed",
      "The sandbox does not run commands: it may be ending. Try again.",
    );
}

/** The error of a script that did not end within `scriptMs`. */
export function unanswered(): PlatformError {
  return new PlatformError(
    "SandboxFailed",
    "The sandbox did not answer within a minute: it may have been paused. Try again.",
  );
}

export function toScriptCommand(sandbox: CommandRunner, text: string, args: string[]): ExecRequest {
  return { argv: [...(sandbox.shell ?? ["sh"]), "-c", text, "sh", ...args], env: { LC_ALL: "C" } };
}

/** Part of a file name that no other file has. */
export function randomSuffix(): string {
  return randomBytes(9).toString("hex");
}

/** A path that no command takes for an option or for stdin. Lengths are those that Linux allows, bytes. */
export function checkPath(path: string): string {
  if (path === "") throw new PlatformError("InvalidParameter", "A path may not be empty.");
  if (path.includes("\0"))
    throw new PlatformError("InvalidParameter", "A path may not contain a NUL character.");
  if (Buffer.byteLength(path) > 4_000 || path.split("/").some((name) => Buffer.byteLength(name) > 255))
    throw new PlatformError(
      "InvalidParameter",
      "A path may have 4000 bytes, and each name in it 255; this one is too long.",
    );
  return path.startsWith("/") ? path : `./${path}`;
}

/** The error of a script that could not do what it should with a path. */
export function toFileError(
  path: string,
  what: string,
  result: { code: number; stderr: Buffer },
): PlatformError {
  if (result.code === codes.missing)
    return new PlatformError("FileNotFound", `There is no ${path} in the sandbox.`);
  if (result.code === codes.special)
    return new PlatformError("NotAFile", `${path} cannot be ${what}: it is neither a file nor a directory.`);
  if (result.code === codes.directory)
    return new PlatformError(
      "NotAFile",
      `${path} cannot be ${what}: it is ${what === "listed" ? "no" : "a"} directory.`,
    );
  const why = failureReason(result);
  const denied = /denied|read-only|not permitted/i.test(why);
  return new PlatformError(
    denied ? "FileForbidden" : "InvalidParameter",
    `${path} cannot be ${what}: ${why}.`,
  );
}

/** The last part of the last line of stderr: `cat: /x: Permission denied` gives `Permission denied`. */
export function failureReason(result: { code: number; stderr: Buffer }): string {
  const line = result.stderr.toString().trim().split("\n").at(-1) ?? "";
  return line.slice(line.lastIndexOf(": ") + 1).trim() || `it ended with code ${result.code}`;
}
