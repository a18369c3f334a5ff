import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";

/** Ends the tool with this process, so that it does not change folders that the next one clears. */
const withThisProcess = ["setpriv", "--pdeathsig", "KILL", "--"];

/**
 * What an overlay's layer consists of besides contents: owners as numbers, extended attributes of
 * any namespace (opaque folders, file capabilities), whiteouts, links and holes.
 */
const exactly = ["--numeric-owner", "--xattrs", "--xattrs-include=*", "--sparse"];

/** Names a file of another filesystem, and so means nothing elsewhere. */
const withoutOrigin = ["--xattrs-exclude=trusted.overlay.origin", "--xattrs-exclude=user.overlay.origin"];

/** Times with fractions, and ids of any size; when a file was read last is not of interest. */
const extended = ["--format=posix", "--pax-option=delete=atime,delete=ctime"];

type Tool = ChildProcessByStdio<Writable, Readable, Readable>;

/**
 * Passes the tar archive of some folders of `folder` on. Nothing may change them meanwhile. Throws
 * FilesNotExported when the tool fails.
 */
export async function* packLayers(
  folder: string,
  names: readonly string[],
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const tool = run(
    [...["--create", "--file=-"], ...exactly, ...withoutOrigin, ...extended, "-C", folder, "--", ...names],
    signal,
  );
  tool.child.stdin.end();
  try {
    yield* tool.child.stdout as AsyncIterable<Uint8Array>;
    const failure = await tool.ended;
    signal.throwIfAborted();
    if (failure !== undefined) throw new PlatformError("FilesNotExported", { reason: failure });
  } finally {
    tool.child.kill("SIGKILL");
    await tool.ended;
  }
}

/**
 * Unpacks such an archive into `folder`, which only this process uses. The archive must be one of
 * `packLayers`: of others, links could lead out of the folder. Throws FilesNotImported.
 */
export async function unpackLayers(
  folder: string,
  archive: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const tool = run(
    ["--extract", "--file=-", "--same-owner", "--same-permissions", ...exactly, "-C", folder],
    signal,
  );
  tool.child.stdout.resume();
  try {
    await feed(archive, tool.child.stdin);
    const failure = await tool.ended;
    signal.throwIfAborted();
    if (failure !== undefined) throw new PlatformError("FilesNotImported", { reason: failure });
  } finally {
    tool.child.kill("SIGKILL");
    await tool.ended;
  }
}

/** Writes until the tool takes no more: it does not read what follows the end of an archive. */
async function feed(archive: AsyncIterable<Uint8Array>, stdin: Writable): Promise<void> {
  for await (const chunk of archive) {
    if (stdin.destroyed) return;
    // A broken pipe is told by the end of the tool.
    if (!stdin.write(chunk)) await Promise.race([once(stdin, "drain"), once(stdin, "close")]).catch(() => {});
  }
  stdin.end();
}

/** Starts tar. `ended` gives the reason of a failure; it never rejects. */
function run(
  words: readonly string[],
  signal: AbortSignal,
): { child: Tool; ended: Promise<string | undefined> } {
  signal.throwIfAborted();
  const [program, ...args] = [...withThisProcess, "tar", ...words];
  const child = spawn(program!, args, {
    env: { PATH: process.env.PATH, LC_ALL: "C" },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let messages = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    messages = (messages + text).slice(-2_048);
  });
  child.stdin.on("error", () => {});
  const kill = () => child.kill("SIGKILL");
  signal.addEventListener("abort", kill);
  const ended = new Promise<string | undefined>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code) => {
      signal.removeEventListener("abort", kill);
      const last = messages.trimEnd().split("\n").at(-1);
      resolve(code === 0 ? undefined : last || `tar exited with ${code}`);
    });
  });
  return { child, ended };
}
