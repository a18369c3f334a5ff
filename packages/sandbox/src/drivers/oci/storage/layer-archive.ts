import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";

/** Command prefix that ends tar with this process, so that tar changes no folder after that. */
const withThisProcess = ["setpriv", "--pdeathsig", "KILL", "--"];

/**
 * Options that keep what a layer of an overlay has besides contents: owners as numbers, extended
 * attributes of any namespace (opaque folders, file capabilities), whiteouts, links and holes.
 */
const exactly = ["--numeric-owner", "--xattrs", "--xattrs-include=*", "--sparse"];

/** Options that leave out an attribute that names a file of the present filesystem. */
const withoutOrigin = ["--xattrs-exclude=trusted.overlay.origin", "--xattrs-exclude=user.overlay.origin"];

/** Options for times with fractions and ids of any size, without the times of the last read. */
const extended = ["--format=posix", "--pax-option=delete=atime,delete=ctime"];

type Tool = ChildProcessByStdio<Writable, Readable, Readable>;

/**
 * Returns a tar archive of the folders `names` of `folder`. Nothing may change them until it ends.
 * Throws FilesNotExported when tar fails.
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
 * Unpacks an archive into `folder`, which only this process uses. The archive must come from
 * `packLayers`, because links of another archive could lead out of the folder. Throws
 * FilesNotImported.
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

/** Writes an archive to tar until tar closes its input, which it does at the end of the archive. */
async function feed(archive: AsyncIterable<Uint8Array>, stdin: Writable): Promise<void> {
  for await (const chunk of archive) {
    if (stdin.destroyed) return;
    // The exit code of tar reports a broken pipe.
    if (!stdin.write(chunk)) await Promise.race([once(stdin, "drain"), once(stdin, "close")]).catch(() => {});
  }
  stdin.end();
}

/** Starts tar. `ended` resolves with the reason of a failure, and never rejects. */
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
