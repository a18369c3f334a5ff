import { mkdir, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { CopyPart } from "./git-folder.ts";
import { readBeginning } from "./read-beginning.ts";
import { createTemporaryFolder } from "./temporary-folder.ts";

/** Git's files of a folder that hold credentials, and copies of them without these. */
export interface CleanedGitFiles {
  /** Relative paths. */
  paths: ReadonlySet<string>;
  /** What replaces them. */
  parts: CopyPart[];
  remove(): Promise<void>;
}

/** Longest file that is cleaned, bytes; a longer one is left out. */
const maxFileBytes = 16 * 1024 * 1024;

/** What git keeps in a repository that never names a remote. */
const without = /^(?:objects|refs|hooks|lfs|info|rr-cache)$/;

const settings = /(?:^|\/)config(?:\.worktree)?$/;
/** Files with addresses that were fetched, and with the history of references. */
const histories = /(?:^|\/)(?:FETCH_HEAD|logs\/.+)$/;

/** Files with nothing but credentials, which `git credential-store` writes. */
const stores = /(?:^|\/)(?:credentials|\.git-credentials)$/;

/**
 * Finds credentials in the files of `repositories`, which are folders of git in a part of a copy:
 * passwords and tokens in the addresses of remotes, and settings with a secret's name, such as the
 * header that a CI service stores for its checkout.
 */
export async function cleanGitFiles(
  { from: folder, to, includes = () => true }: CopyPart,
  repositories: readonly string[],
): Promise<CleanedGitFiles> {
  const cleaned = new Map<string, string | undefined>();
  for (const repository of repositories) {
    // Files of a repository without a work tree would count as changed.
    const isHidden = repository === "." || /(?:^|\/)\.git$/.test(repository);
    for await (const path of listFiles(folder, repository)) {
      if (!includes(path)) continue;
      if (stores.test(path)) cleaned.set(path, undefined);
      else if (settings.test(path) || histories.test(path)) {
        const found = await readBeginning(join(folder, path), maxFileBytes);
        const text = found?.bytes.toString("latin1") ?? "";
        const plain = settings.test(path) ? withoutCredentials(text) : withoutUsers(text);
        if (plain !== text || found?.isWhole === false)
          cleaned.set(path, isHidden && found?.isWhole ? plain : undefined);
      }
    }
  }
  const paths = new Set(cleaned.keys());
  if (![...cleaned.values()].some((text) => text !== undefined))
    return { paths, parts: [], remove: async () => {} };
  const overlay = await createTemporaryFolder("git");
  for (const [path, text] of cleaned) {
    if (text === undefined) continue;
    await mkdir(dirname(join(overlay.path, path)), { recursive: true });
    await writeFile(join(overlay.path, path), text, "latin1");
  }
  return { paths, parts: [{ from: overlay.path, to }], remove: () => overlay.remove() };
}

/** Files below a folder of git, as paths from `root`; links are not followed. */
async function* listFiles(root: string, folder: string): AsyncGenerator<string> {
  for (const entry of await readdir(join(root, folder), { withFileTypes: true })) {
    const path = folder === "." ? entry.name : `${folder}/${entry.name}`;
    if (entry.isFile()) yield path;
    else if (entry.isDirectory() && (!without.test(entry.name) || isHistory(path)))
      yield* listFiles(root, path);
  }
}

/** Whether a path is in the history of references, which has a folder `refs`, too. */
const isHistory = (path: string) => /(?:^|\/)logs\//.test(path);

const secretName = /(?:header|token|passw|pass$|secret|api-?key|cookie)/i;
/** A helper that is a command may print the password itself. */
const printedSecret = /\bpassword=/;

/** The settings of git without credentials. Takes linear time. */
export function withoutCredentials(settings: string): string {
  return joinContinued(settings.split("\n"))
    .flatMap((line) => {
      const equals = line.indexOf("=");
      if (equals < 0) return [line];
      // A section and its first setting may share a line.
      const section = /^\s*\[/.test(line) ? line.lastIndexOf("]", equals) + 1 : 0;
      const isSecret = secretName.test(line.slice(section, equals).trim()) || printedSecret.test(line);
      if (!isSecret) return [line];
      return section > 0 ? [line.slice(0, section)] : [];
    })
    .map(withoutUsers)
    .join("\n");
}

/** Lines that end in a backslash, with the lines that continue them. */
function joinContinued(lines: readonly string[]): string[] {
  const joined: string[][] = [];
  let continues = false;
  for (const line of lines) {
    if (continues) joined.at(-1)!.push(line);
    else joined.push([line]);
    continues = /\\\r?$/.test(line);
  }
  return joined.map((parts) => parts.join("\n"));
}

/** Leaves users and passwords out of the addresses in a text; ssh needs its user. */
export function withoutUsers(text: string): string {
  return text.replace(/\b(https?|ftps?|socks\w{0,2}):\/\/[^\s/"'<>]*@/gi, "$1://");
}
