import { spawn } from "node:child_process";
import { createReadStream } from "node:fs";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Patch } from "./changes.ts";
import { CliError } from "./errors.ts";
import type { Invoker } from "./invoker.ts";

/** Kept patches; older ones are removed. */
const maxKeptPatches = 50;

/** Folder, file, number of files that stay. Patches are private. */
const script = `
umask 077
mkdir -p -- "$1" && cat > "$2" || { rm -f -- "$2"; exit 1; }
ls -t -- "$1" | tail -n "+$3" | while read -r old; do rm -f -- "$1/$old"; done`;

/**
 * Keeps a patch that was not applied in the user's state folder; returns the path of the file. Runs
 * as the user, because the folder belongs to the user. Throws CliError.
 */
export async function keepPatch(patch: Patch, folder: string, user: Invoker | undefined): Promise<string> {
  const state = (!user && process.env.XDG_STATE_HOME) || join(user?.home ?? homedir(), ".local/state");
  const dir = join(state, "sandpiper/patches");
  const time = new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, "").replace("T", "-");
  const name = basename(folder).replaceAll(/[^\w.-]/g, "_");
  const file = join(dir, `${name || "folder"}-${time}-${process.pid}.patch`);
  const child = spawn("/bin/sh", ["-c", script, "sh", dir, file, String(maxKeptPatches + 1)], {
    stdio: ["pipe", "ignore", "ignore"],
    ...(user && { uid: user.uid, gid: user.gid }),
  });
  const exit = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  await pipeline(createReadStream(patch.file), child.stdin!).catch(() => {});
  if ((await exit) !== 0) throw new CliError(`The changes could not be kept in ${file}.`);
  return file;
}
