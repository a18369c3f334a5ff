import { PlatformError } from "@sandpiper/core/errors";
import { packArchive, unpackArchive } from "./archives.ts";
import { codes } from "./file-scripts.ts";
import { type CommandRunner, failureReason, randomSuffix, runScript, stat } from "./files.ts";

/** Time for one step of a replacement, ms: folders may be large. */
const stepMs = 600_000;

/** Names of what a replacement puts beside the files, which a later one removes. */
const besidePattern = ".restore-*";

/** Folder. Removes what replacements that were broken off have left. */
const cleanScript = `
mkdir -p -- "$1" || exit ${codes.denied}
exec rm -rf -- "$1"/${besidePattern}`;

/** Folder, and the name of a folder in it whose content takes the place of everything else there: all of it, or nothing where something cannot be moved. */
const swapScript = `
cd -P -- "$1" || exit ${codes.denied}
new=./$2 old=./$2-old
move() {
  for name in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -e "$name" ] || [ -L "$name" ] || continue
    case $name in ./${besidePattern}/*) ;; ./${besidePattern}) continue ;; esac
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

/** A folder whose new content lies ready beside the old one. */
export interface StagedFolder {
  /** Puts the new content in the place of the old one. Throws SandboxFailed, and the old content is there still. */
  swap(): Promise<void>;
  /** Drops the new content. Never rejects. */
  discard(): Promise<void>;
}

/**
 * Copies the content of a folder of one sandbox into a folder of another, beside what is there. The folder itself stays, so that shells in it go on.
 * Undefined where the first sandbox has no such folder. Throws what `exec` throws, InvalidParameter where files cannot be read or written, and the signal's reason.
 */
export async function stageFolder(
  source: CommandRunner,
  from: string,
  target: CommandRunner,
  to: string,
  signal: AbortSignal,
): Promise<StagedFolder | undefined> {
  if ((await stat(source, from))?.kind !== "directory") return undefined;
  await must(target, cleanScript, [to], to);
  const name = besidePattern.replace("*", randomSuffix());
  const beside = `${to === "/" ? "" : to}/${name}`;
  const discard = async () =>
    void (await runScript(target, 'exec rm -rf -- "$1"', [beside], { timeoutMs: stepMs }).catch(() => {}));
  try {
    const tar = await packArchive(source, from, { excludes: [`./${besidePattern}`], signal });
    // Whoever reads it gets its error; until then nobody does.
    tar.on("error", () => {});
    await unpackArchive(target, beside, tar, { keepModes: true, signal });
  } catch (error) {
    await discard();
    throw error;
  }
  return { discard, swap: () => must(target, swapScript, [to, name], to) };
}

async function must(sandbox: CommandRunner, text: string, args: string[], folder: string): Promise<void> {
  const result = await runScript(sandbox, text, args, { timeoutMs: stepMs });
  if (result.code === 0) return;
  throw new PlatformError(
    "SandboxFailed",
    `The files in ${folder} could not be replaced, and are as they were: ${failureReason(result)}.`,
  );
}
