import { randomBytes } from "node:crypto";
import { PlatformError } from "@sandpiper/core/errors";
import type { ExecRequest } from "../driver.ts";
import type { Sandbox } from "../sandbox.ts";
import type { RunOptions, RunResult } from "../shell/run.ts";
import { runToEnd } from "../shell/run.ts";
import { codes, listScript, readScript, statScript, writeScript } from "./file-scripts.ts";

/**
 * Runs commands in a sandbox, with the rights of its user. File functions use only commands and
 * never a path of the host, so links inside a sandbox cannot lead out of it. Relative paths start
 * at the spec's working directory. Every function throws InvalidParameter for an invalid path, and
 * what `exec` throws.
 */
export type CommandRunner = Pick<Sandbox, "exec" | "shell">;

/** `unreadable`: no permission, or neither a file nor a directory; `size` in bytes. */
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
  // One extra byte detects a file that is too large.
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
 * Writes a file atomically and creates its parent folders. Keeps the mode of an existing file,
 * follows links, and writes in place only where the folder is read-only. Throws InvalidParameter
 * when the path cannot be written.
 */
export async function writeFile(
  sandbox: CommandRunner,
  path: string,
  content: Buffer | string,
  options: { signal?: AbortSignal } = {},
): Promise<void> {
  const input = typeof content === "string" ? Buffer.from(content) : content;
  const args = [checkPath(path), String(input.length), randomSuffix(), "all"];
  const result = await runScript(sandbox, writeScript, args, { input, ...options });
  if (result.code === 0 || result.code === codes.inPlace) return;
  const reason = result.code === codes.directory ? "it is a directory" : failureReason(result);
  throw new PlatformError("FileActionFailed", { path, action: "written", reason });
}

export interface FileStat {
  kind: "file" | "directory" | "other";
  /** Bytes. */
  size: number;
  /** Permission bits. */
  mode: number;
  /** Last modification, ms since the epoch. */
  modifiedAt: number;
}

/** Follows links. Undefined for a missing file. */
export async function stat(sandbox: CommandRunner, path: string): Promise<FileStat | undefined> {
  const result = await runScript(sandbox, statScript, [checkPath(path)]);
  if (result.code === codes.missing) return undefined;
  const [raw, size, seconds] = result.stdout.toString().trim().split(" ");
  if (result.code !== 0 || raw === undefined)
    throw new PlatformError("FileActionFailed", { path, action: "examined", reason: failureReason(result) });
  const bits = Number.parseInt(raw, 16);
  const kind = getFileKind(bits);
  const modifiedAt = Number(seconds) * 1_000;
  return { kind: kind === "link" ? "other" : kind, size: Number(size), mode: bits & 0o7777, modifiedAt };
}

export function getFileKind(bits: number): "file" | "directory" | "link" | "other" {
  const type = bits & 0o170000;
  return type === 0o100000 ? "file" : type === 0o040000 ? "directory" : type === 0o120000 ? "link" : "other";
}

export interface Listing {
  /** Visible entries up to two levels below, sorted by path relative to the folder. */
  entries: { path: string; directory: boolean }[];
  /**
   * Number of hidden entries directly in the folder; `entries` has neither them nor their content.
   */
  hidden: number;
  /** The folder has more entries. */
  truncated: boolean;
}

/** Lists a folder two levels deep and follows links. Undefined for a missing folder. */
export async function list(sandbox: CommandRunner, path: string): Promise<Listing | undefined> {
  const result = await runScript(sandbox, listScript, [checkPath(path)], { maxOutputBytes: 4 * 2 ** 20 });
  if (result.code === codes.missing) return undefined;
  if (result.code === codes.denied)
    throw new PlatformError("FileActionFailed", { path, action: "listed", reason: failureReason(result) });
  // Each record ends in NUL; the last part is empty or cut off.
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

/** Default limit of a script, ms: a pause of the sandbox freezes it. */
export const scriptTimeoutMs = 60_000;

/**
 * Runs a script; paths are arguments, never part of its text. Throws what `exec` throws, and
 * SandboxFailed when it exceeds the default limit.
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
  if (result.timedOut && options.timeoutMs === undefined) throw new PlatformError("SandboxUnresponsive");
  if (!result.timedOut) await checkAlive(sandbox, result.code);
  return result;
}

/** Exit code of a script that SIGTERM ended: the stop of a sandbox sends it. */
const terminatedCode = 143;

/** Throws SandboxFailed when a script's exit code comes from the end of its sandbox. */
export async function checkAlive(sandbox: CommandRunner, code: number): Promise<void> {
  if (code < 126) return;
  // A snapshot starts the sandbox again, so that a later probe would succeed.
  if (code === terminatedCode) throw new PlatformError("SandboxRunsNoCommands");
  const probe = { ...toScriptCommand(sandbox, ":", []), cwd: "/" };
  const { code: probeCode } = await runToEnd(sandbox, probe, { timeoutMs: scriptTimeoutMs });
  if (probeCode !== 0) throw new PlatformError("SandboxRunsNoCommands");
}

export function toScriptCommand(sandbox: CommandRunner, text: string, args: string[]): ExecRequest {
  return { argv: [...(sandbox.shell ?? ["sh"]), "-c", text, "sh", ...args], env: { LC_ALL: "C" } };
}

export function randomSuffix(): string {
  return randomBytes(9).toString("hex");
}

/** Makes a path that no command mistakes for an option. Lengths are Linux limits, bytes. */
export function checkPath(path: string): string {
  if (path === "") throw new PlatformError("PathEmpty");
  if (path.includes("\0")) throw new PlatformError("PathWithNul");
  if (Buffer.byteLength(path) > 4_000 || path.split("/").some((name) => Buffer.byteLength(name) > 255))
    throw new PlatformError("PathTooLong");
  return path.startsWith("/") ? path : `./${path}`;
}

/** The error of a failed script; `action` is a participle such as `written`. */
export function toFileError(
  path: string,
  action: string,
  result: { code: number; stderr: Buffer },
): PlatformError {
  if (result.code === codes.missing) return new PlatformError("FileMissing", { path });
  const fail = (key: "FileActionFailed" | "FileActionForbidden" | "FileKindWrong", reason: string) =>
    new PlatformError(key, { path, action, reason });
  if (result.code === codes.special) return fail("FileKindWrong", "it is neither a file nor a directory");
  if (result.code === codes.directory)
    return fail("FileKindWrong", `it is ${action === "listed" ? "not a" : "a"} directory`);
  const reason = failureReason(result);
  const denied = /denied|read-only|not permitted/i.test(reason);
  return fail(denied ? "FileActionForbidden" : "FileActionFailed", reason);
}

/**
 * The last part of the last line of stderr: `cat: /x: Permission denied` gives `Permission denied`.
 */
export function failureReason(result: { code: number; stderr: Buffer }): string {
  const line = result.stderr.toString().trim().split("\n").at(-1) ?? "";
  return line.slice(line.lastIndexOf(": ") + 1).trim() || `it ended with code ${result.code}`;
}
