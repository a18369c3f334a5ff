import { trimTail } from "@sandpiper/core/trim";
import { CliError } from "./errors.ts";

/** Code points that a file system may leave out when it compares names (HFS+). */
const ignored = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;

/** The folder of git, and short names of Windows for it and for files that git reads. */
const always = /^(?:\.git|git(?:mod|att|ign)?~\d+|gi[0-9a-f]{4}~\d+)$/;

/** Files that git reads in a work tree: their plain names are usual, other forms hide them. */
const disguised = /^\.(?:git(?:modules|attributes|ignore)|mailmap)$/;

/**
 * Checks the paths of changes before they are applied. `changed` are relative paths of files, `all`
 * every path of the tree after them. Throws CliError for a path that a file system could take for
 * git's own folder or for a disguised file of git, and for changes inside of a folder that git
 * would take for a repository, whose configuration can run programs.
 */
export function checkPatchPaths(changed: readonly string[], all: readonly string[]): void {
  for (const path of changed) {
    const part = path.split(/[/\\]/).find(isOfGit);
    if (part !== undefined)
      throw refusal(path, `${JSON.stringify(part)} is, or can be taken for, a file or folder of git itself`);
  }
  const repositories = findRepositories(all);
  for (const path of changed) {
    const folder = repositories.find((one) => one === "" || path.startsWith(`${one}/`));
    if (folder !== undefined)
      throw refusal(path, `git would take the folder ${JSON.stringify(folder || ".")} for a repository`);
  }
}

/** Whether a part of a path is git's folder in any notation, or hides the name of a file of git. */
export function isOfGit(part: string): boolean {
  const shown = part.replace(ignored, "").normalize("NFKC").toLowerCase();
  // Windows leaves the names of streams, and dots and blanks at the end, out of names.
  const plain = trimTail(shown.split(":", 1)[0]!, ". ");
  return always.test(plain) || (disguised.test(plain) && plain !== part);
}

/**
 * Folders that git recognises as a repository without a work tree. For git, `objects` and `refs`
 * may be links or executable files, and `commondir` may name the folder that has both.
 */
function findRepositories(paths: readonly string[]): string[] {
  const marks = new Map<string, Set<string>>();
  for (const path of paths) {
    const parts = path.split("/");
    for (const [index, part] of parts.entries()) {
      const name = part.toLowerCase();
      if (!/^(?:head|objects|refs|commondir)$/.test(name)) continue;
      const folder = parts.slice(0, index).join("/");
      marks.set(folder, (marks.get(folder) ?? new Set()).add(name));
    }
  }
  return [...marks].flatMap(([folder, found]) =>
    found.has("head") && (found.has("commondir") || (found.has("objects") && found.has("refs")))
      ? [folder]
      : [],
  );
}

function refusal(path: string, reason: string): CliError {
  return new CliError(`Nothing was applied: the changes contain ${JSON.stringify(path)}, and ${reason}.`);
}
