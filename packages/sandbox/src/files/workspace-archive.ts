import { posix } from "node:path";
import type { Readable } from "node:stream";
import { pipeline, Readable as ReadableStream } from "node:stream";
import { constants, createGzip } from "node:zlib";
import { packArchive } from "./archives.ts";
import { excludeMatcher } from "./exclude-matcher.ts";
import type { CommandRunner } from "./files.ts";
import { filterTar, type TarEntry } from "./tar-filter.ts";

/** Describes an archive, inside of it. */
const manifestName = "archive_manifest.json";

/** Files of a repository that may contain credentials, at any depth of its `.git`. */
const credentialFiles = new Set([
  "config",
  "config.worktree",
  "credentials",
  ".git-credentials",
  "FETCH_HEAD",
]);

/**
 * Packs a folder of the sandbox as a gzipped tar below its own name, with a manifest as last file
 * and without credentials of git. `excludes` are patterns: `*` stays within a name, a pattern
 * without a slash matches names at any depth, another one paths from the folder, and a final slash
 * means a folder. Throws and fails as `packArchive`.
 */
export async function packWorkspace(
  sandbox: CommandRunner,
  folder: string,
  excludes: readonly string[],
): Promise<Readable> {
  // What is excluded by a plain name is not even read; the filter decides about the rest.
  const plain = excludes.map((text) => text.replace(/\/$/, "")).filter((name) => /^[\w.-]+$/.test(name));
  const tar = await packArchive(sandbox, folder, { named: true, excludes: plain.map((name) => `${name}/*`) });
  const filter = workspaceFilter(folder, excludes);
  const content = ReadableStream.from(filterTar(tar, filter), { objectMode: false });
  const gzip = createGzip({ level: constants.Z_BEST_SPEED });
  pipeline(content, gzip, () => tar.destroy());
  return gzip;
}

/** Decides which entries belong to an archive, and counts them for its manifest. */
export function workspaceFilter(folder: string, excludes: readonly string[]) {
  const isExcluded = excludeMatcher(excludes);
  let root: string | undefined;
  let taken = false;
  const counts = { file_count: 0, total_bytes: 0 };
  return {
    keep({ name, kind, size }: TarEntry): boolean {
      const slash = name.indexOf("/");
      root ??= slash < 0 ? name : name.slice(0, slash);
      const path = slash < 0 ? "" : name.slice(slash + 1);
      if (path === "") return true;
      if (holdsCredentials(posix.join(folder, path)) || isExcluded(path, kind === "directory")) return false;
      taken ||= path === manifestName;
      if (kind === "file") {
        counts.file_count++;
        counts.total_bytes += size;
      }
      return true;
    },
    last(): { name: string; content: Buffer } | undefined {
      const name = `${root ?? "."}/${manifestName}`;
      // A file of the user comes before the manifest; a longer name would need another format.
      if (taken || Buffer.byteLength(name) > 99) return undefined;
      const { file_count, total_bytes } = counts;
      const manifest = { excludes, file_count, format: "tar.gz", source: root ?? ".", total_bytes };
      return { name, content: Buffer.from(JSON.stringify(manifest, undefined, 2)) };
    },
  };
}

/** Whether a path is one of git's files that may contain credentials of remotes. */
export function holdsCredentials(path: string): boolean {
  const names = path.split("/");
  if (names.at(-1) === ".git-credentials") return true;
  // A bare repository ends in `.git`.
  const git = names.findIndex((name) => name.endsWith(".git"));
  if (git < 0 || git === names.length - 1) return false;
  const inside = names.slice(git + 1);
  return inside.includes("logs") || credentialFiles.has(inside.at(-1)!);
}
