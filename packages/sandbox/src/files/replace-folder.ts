import { PlatformError } from "@sandpiper/core/errors";
import { packArchive, unpackArchive } from "./archives.ts";
import { codes } from "./file-scripts.ts";
import { type CommandRunner, failureReason, randomSuffix, runScript, stat } from "./files.ts";

/** Limit of one step, ms: folders may be large. */
const stepMs = 600_000;

/** Names of temporary folders of a replacement; a later replacement removes leftovers. */
const stagedPattern = ".restore-*";

/** Folder. Removes leftovers of interrupted replacements. */
const cleanScript = `
mkdir -p -- "$1" || exit ${codes.denied}
exec rm -rf -- "$1"/${stagedPattern}`;

/**
 * Folder, and the name of a folder in it whose content replaces everything else, all or nothing.
 */
const swapScript = `
cd -P -- "$1" || exit ${codes.denied}
new=./$2 old=./$2-old
move() {
  for name in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -e "$name" ] || [ -L "$name" ] || continue
    case $name in ./${stagedPattern}/*) ;; ./${stagedPattern}) continue ;; esac
    mv -f -- "$name" "$2/" || return 1
  done
}
mkdir -- "$old" || exit ${codes.denied}
if move . "$old"; then
  move "$new" . && { rm -rf -- "$new" "$old"; exit 0; }
  move . "$new"
fi
move "$old" .
rm -rf -- "$new" "$old"
exit ${codes.denied}`;

/** A folder whose new content is ready next to the old content. */
export interface StagedFolder {
  /** Replaces the old content. Throws SandboxFailed and then keeps the old content. */
  swap(): Promise<void>;
  /** Drops the new content. Never rejects. */
  discard(): Promise<void>;
}

/**
 * Copies the content of a folder of one sandbox into a new folder inside a folder of another, which
 * stays in place so that its shells keep working. Undefined when the source folder is missing.
 * Throws what `exec` throws, InvalidParameter when files cannot be read or written, and the
 * signal's reason.
 */
export async function stageFolder(
  source: CommandRunner,
  from: string,
  target: CommandRunner,
  to: string,
  signal: AbortSignal,
): Promise<StagedFolder | undefined> {
  if ((await stat(source, from))?.kind !== "directory") return undefined;
  await runOrThrow(target, cleanScript, [to]);
  const name = stagedPattern.replace("*", randomSuffix());
  const staged = `${to === "/" ? "" : to}/${name}`;
  const discard = async () =>
    void (await runScript(target, 'exec rm -rf -- "$1"', [staged], { timeoutMs: stepMs }).catch(() => {}));
  try {
    const tar = await packArchive(source, from, { excludes: [`./${stagedPattern}`], signal });
    // The reader gets the error; this handles one before the reader attaches.
    tar.on("error", () => {});
    await unpackArchive(target, staged, tar, { keepModes: true, signal });
  } catch (error) {
    await discard();
    throw error;
  }
  return { discard, swap: () => runOrThrow(target, swapScript, [to, name]) };
}

/** The first argument is the folder. */
async function runOrThrow(sandbox: CommandRunner, text: string, args: [string, ...string[]]): Promise<void> {
  const result = await runScript(sandbox, text, args, { timeoutMs: stepMs });
  if (result.code === 0) return;
  throw new PlatformError("FolderNotReplaced", { folder: args[0], reason: failureReason(result) });
}
