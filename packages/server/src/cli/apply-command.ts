import { relative } from "node:path";
import { findRepository } from "./foreign-git.ts";

/**
 * The command that applies a patch file to a folder, from any folder and as it is. `conflicts`: the
 * folder was changed meanwhile, so git merges in a repository, and elsewhere applies what fits.
 */
export function applyCommand(folder: string, file: string, { conflicts = false } = {}): string {
  const repository = findRepository(folder);
  const below = repository === undefined ? "" : relative(repository, folder);
  const how = [
    // git takes the paths of a patch from the top of a repository.
    ...(below ? [`--directory=${quoteForShell(below)}`] : []),
    // In a repository that ignores the folder, git has nothing to merge with.
    ...(conflicts ? [repository !== undefined && !below ? "--3way" : "--reject"] : []),
  ];
  return ["git", "-C", quoteForShell(repository ?? folder), "apply", ...how, quoteForShell(file)].join(" ");
}

/**
 * Quotes a word for a shell. Characters that a terminal does not show become byte escapes, which
 * bash and zsh turn back into the characters.
 */
export function quoteForShell(word: string): string {
  if (/^[\p{L}\p{N}\p{P}\p{S} ]*$/u.test(word)) return `'${word.replaceAll("'", "'\\''")}'`;
  const bytes = [...Buffer.from(word)].map((byte) =>
    byte > 0x20 && byte < 0x7f && byte !== 0x27 && byte !== 0x5c
      ? String.fromCharCode(byte)
      : `\\${byte.toString(8).padStart(3, "0")}`,
  );
  return `$'${bytes.join("")}'`;
}
