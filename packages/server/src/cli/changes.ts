import { createReadStream } from "node:fs";
import { chmod, copyFile, lstat, mkdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CliError } from "./errors.ts";
import { askForeignGit } from "./foreign-git.ts";
import { formatDiff } from "./format-diff.ts";
import { isolatedGit, runGit } from "./git.ts";
import type { Invoker } from "./invoker.ts";
import { checkPatchPaths } from "./patch-paths.ts";
import type { Paint } from "./style.ts";
import { createTemporaryFolder, type TemporaryFolder } from "./temporary-folder.ts";
import { listFiles } from "./tree.ts";

interface ChangesParts {
  scratch: TemporaryFolder;
  folder: string;
  user: Invoker | undefined;
  signal: AbortSignal | undefined;
  /** Whether the copy has a relative path of the folder. */
  includes: (path: string) => boolean;
}

/**
 * Finds and applies an agent's changes to a copy of a folder, with a temporary git repository, so
 * it works for any folder. Ignored files (`.gitignore`) are left out unless the folder's own
 * repository tracks them. The user's git configuration has no effect, and line endings stay.
 */
export class Changes {
  readonly #scratch: TemporaryFolder;
  readonly #folder: string;
  readonly #user: Invoker | undefined;
  /** Ends the preparation; the end of a run is not interrupted. */
  #signal: AbortSignal | undefined;
  readonly #includes: (path: string) => boolean;
  #tracked: Set<string> = new Set();
  #before = "";
  /** Changes are compared with the folder, and not with a copy. */
  #isOwn = true;

  private constructor({ scratch, folder, user, signal, includes }: ChangesParts) {
    this.#scratch = scratch;
    this.#folder = folder;
    this.#user = user;
    this.#signal = signal;
    this.#includes = includes;
  }

  /** Takes a snapshot of the folder. */
  static async since(
    folder: string,
    user?: Invoker,
    signal?: AbortSignal,
    includes = (_path: string) => true,
  ): Promise<Changes> {
    const scratch = await createTemporaryFolder("changes", user);
    const changes = new Changes({ scratch, folder, user, signal, includes });
    try {
      await changes.#prepare();
      changes.#signal = undefined;
      return changes;
    } catch (error) {
      await changes.close();
      throw error;
    }
  }

  /** The snapshot, as the id of a git tree: equal for equal files. */
  get tree(): string {
    return this.#before;
  }

  /**
   * Compares with this copy from now on, instead of with the folder; returns the paths that differ
   * between both.
   */
  async startFrom(copy: string): Promise<string[]> {
    const own = this.#before;
    this.#isOwn = false;
    this.#before = await this.#snapshot(copy, "before");
    return split(
      await this.#git(["diff-tree", "-r", "-z", "--name-only", "--no-renames", own, this.#before]),
    );
  }

  /** Adds a file of the folder, as it is now, to what changes are compared with. */
  async include(path: string): Promise<void> {
    this.#before = await this.#add(this.#folder, "before", [path]);
  }

  /**
   * Relative paths of folders and large files that are ignored with all they hold, so that a
   * comparison needs none of them as long as no `.gitignore` changes. Few, and short in sum.
   */
  async ignored(): Promise<string[]> {
    if (!this.#isOwn) return [];
    const env = { GIT_WORK_TREE: this.#folder, GIT_INDEX_FILE: this.#index("before") };
    const others = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
    const found = split(await this.#git(others, { cwd: this.#folder, env }));
    return chooseLarge(this.#folder, found);
  }

  /** An empty folder for the changed tree. */
  async target(): Promise<string> {
    const target = join(this.#scratch.path, "after");
    await rm(target, { recursive: true, force: true });
    await mkdir(target, { mode: 0o755 });
    return target;
  }

  /** Compares the snapshot with a changed copy; undefined when nothing changed. */
  async compare(changed: string): Promise<Patch | undefined> {
    // A file with the size and the time of the snapshot's is not read again.
    const [from, to] = [this.#index("before"), this.#index("after")];
    await copyFile(from, to);
    // git reads files again that are as new as the snapshot.
    const { atime, mtime } = await stat(from);
    await utimes(to, atime, mtime);
    const after = await this.#add(changed, "after", await listFiles(changed), { drops: true });
    if (after === this.#before) return undefined;
    const trees = [this.#before, after];
    const diff = (...options: string[]) =>
      this.#git(["diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", ...options, ...trees]);
    const file = join(this.#scratch.path, "changes.patch");
    await diff("-p", "--binary", "--full-index", `--output=${file}`);
    const names = (...args: string[]) => this.#git([...args, "-r", "-z", "--name-only"]).then(split);
    return {
      file,
      changed: await names("diff-tree", "--no-renames", ...trees),
      all: await names("ls-tree", "--full-tree", after),
      text: () => readFile(file),
      display: async (paint) => formatDiff((await diff("-p", "--stat")).toString(), paint),
    };
  }

  /**
   * Applies a patch completely or not at all. Throws ApplyConflict when the folder was changed
   * meanwhile in a conflicting way, and CliError for paths that git itself would use
   * (`checkPatchPaths`).
   */
  async apply(patch: Patch): Promise<void> {
    checkPatchPaths(patch.changed, patch.all);
    try {
      await this.#apply(patch, ["--check"]);
    } catch (error) {
      throw new ApplyConflict(
        `The folder was changed during the run and conflicts with the changes; nothing was applied. ${(error as Error).message.trim().replace(/\.?$/, ".")}`,
        { cause: error },
      );
    }
    await this.#orUndo(patch, () => this.#apply(patch, []));
  }

  /**
   * Merges a patch into the folder and leaves conflict markers where both changed; returns the
   * paths with conflicts. Throws CliError, and then changes nothing, when a file is gone or cannot
   * be written.
   */
  async merge(patch: Patch): Promise<string[]> {
    checkPatchPaths(patch.changed, patch.all);
    return this.#orUndo(patch, () => this.#merge(patch));
  }

  async #merge(patch: Patch): Promise<string[]> {
    await this.#snapshot(this.#folder, "now");
    const env = { GIT_INDEX_FILE: join(this.#scratch.path, "now.index") };
    try {
      await this.#apply(patch, ["--3way"], env);
      return [];
    } catch (error) {
      // git ends with 1 both when it left markers and when it changed nothing.
      const unmerged = split(
        await this.#git(["diff", "--name-only", "-z", "--diff-filter=U"], {
          cwd: this.#folder,
          env: { ...env, GIT_WORK_TREE: this.#folder },
        }),
      );
      if (unmerged.length === 0) throw error;
      return [...new Set(unmerged)];
    }
  }

  /** A change that fails halfway, as on a full disk, leaves the folder as it was. */
  async #orUndo<T>(patch: Patch, change: () => Promise<T>): Promise<T> {
    const kinds = await Promise.all(
      patch.changed.map((path) => lstat(join(this.#folder, path)).catch(() => undefined)),
    );
    const created = patch.changed.filter((_, at) => !kinds[at]);
    const old = patch.changed.filter((_, at) => kinds[at]?.isFile() || kinds[at]?.isSymbolicLink());
    await rm(this.#index("old"), { force: true });
    await this.#add(this.#folder, "old", old);
    try {
      return await change();
    } catch (error) {
      for (const path of created) await rm(join(this.#folder, path), { force: true });
      const env = { GIT_WORK_TREE: this.#folder, GIT_INDEX_FILE: this.#index("old") };
      await this.#git(["checkout-index", "--all", "--force", "--quiet"], { cwd: this.#folder, env });
      throw error;
    }
  }

  #apply(patch: Patch, options: string[], env: Record<string, string> = {}): Promise<Buffer> {
    return this.#git(["apply", "--whitespace=nowarn", ...options], {
      cwd: this.#folder,
      env: { GIT_WORK_TREE: this.#folder, ...env },
      input: createReadStream(patch.file),
    });
  }

  async close(): Promise<void> {
    await this.#scratch.remove();
  }

  async #prepare(): Promise<void> {
    await this.#git(["init", "-q", "--template=", "--bare", this.#gitDir], {
      env: { GIT_DIR: this.#gitDir },
    });
    const settings = {
      "core.bare": "false",
      "core.fileMode": "true",
      "core.symlinks": "true",
      "core.protectNTFS": "false",
      "core.autocrlf": "false",
      // A copy has the sizes and times of its files, but not their numbers and owners.
      "core.checkStat": "minimal",
      "core.trustctime": "false",
    };
    for (const [name, value] of Object.entries(settings)) await this.#git(["config", name, value]);
    await mkdir(join(this.#gitDir, "info"), { recursive: true });
    // These override every .gitattributes of the tree.
    await writeFile(
      join(this.#gitDir, "info/attributes"),
      "* -text -filter -ident -working-tree-encoding\n",
      { mode: 0o644 },
    );
    await chmod(join(this.#gitDir, "info"), 0o755);
    const tracked = await askForeignGit(["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"], {
      cwd: this.#folder,
      user: this.#user,
      accept: [128, 129],
    });
    this.#tracked = new Set(split(tracked));
    this.#before = await this.#snapshot(this.#folder, "before");
  }

  get #gitDir(): string {
    return join(this.#scratch.path, "git");
  }

  /** Stores the files of a folder; returns the id of their tree. */
  async #snapshot(folder: string, name: string): Promise<string> {
    // An earlier snapshot of this name may have files that are gone.
    await rm(this.#index(name), { force: true });
    const includes = folder === this.#folder ? this.#includes : undefined;
    return this.#add(folder, name, await listFiles(folder, includes));
  }

  #index(name: string): string {
    return join(this.#scratch.path, `${name}.index`);
  }

  /**
   * Adds files to a snapshot, without ignored ones; returns the id of its tree. `drops`: other
   * files leave the snapshot.
   */
  async #add(
    folder: string,
    name: string,
    files: readonly string[],
    { drops = false } = {},
  ): Promise<string> {
    const env = { GIT_WORK_TREE: folder, GIT_INDEX_FILE: this.#index(name) };
    const ignored = await this.#git(["check-ignore", "-z", "--stdin", "--no-index"], {
      cwd: folder,
      env,
      input: lines(files),
      accept: [1],
    });
    const skip = new Set(split(ignored).filter((path) => !this.#tracked.has(path)));
    const included = files.filter((path) => !skip.has(path));
    const options = { cwd: folder, env };
    if (drops) {
      const kept = new Set(included);
      const gone = split(await this.#git(["ls-files", "-z"], options)).filter((path) => !kept.has(path));
      if (gone.length > 0)
        await this.#git(["update-index", "-z", "--force-remove", "--stdin"], {
          ...options,
          input: lines(gone),
        });
    }
    await this.#git(["update-index", "-z", "--add", "--replace", "--stdin"], {
      ...options,
      input: lines(included),
    });
    return (await this.#git(["write-tree"], { env })).toString().trim();
  }

  #git(args: string[], options: Parameters<typeof runGit>[1] = {}): Promise<Buffer> {
    const env = { ...isolatedGit, GIT_DIR: this.#gitDir, ...options.env };
    return runGit(args, {
      cwd: this.#scratch.path,
      ...options,
      env,
      signal: this.#signal,
      user: this.#user && { ...this.#user, home: this.#scratch.path },
    });
  }
}

/** The folder was changed during the run, so that a patch does not fit. */
export class ApplyConflict extends CliError {}

/** A change of a folder. */
export interface Patch {
  /** The patch in the form that `git apply` takes, binary files included. */
  file: string;
  /** Relative paths of the changed files, and of all files after the changes. */
  changed: string[];
  all: string[];
  text(): Promise<Buffer>;
  /** For people: a summary, then the diff, with every character visible. */
  display(paint: Paint): Promise<string>;
}

/** Throws CliError when the path is not a folder. */
export async function checkFolder(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (!found?.isDirectory()) throw new CliError(`${path} is not a folder.`, { exitCode: 2 });
}

/** Ignored files of at least this size are left out by name, bytes. */
const largeBytes = 1024 * 1024;
/** Most names in a request, and most characters of all of them. */
const maxNames = 50;
const maxNameLength = 4_000;

/** The folders and large files in a list of git; names with characters of patterns are left out. */
async function chooseLarge(folder: string, paths: readonly string[]): Promise<string[]> {
  const chosen: string[] = [];
  let length = 0;
  for (const path of paths.toSorted((a, b) => Number(b.endsWith("/")) - Number(a.endsWith("/")))) {
    const name = path.replace(/\/$/, "");
    if (!/^[\w./@+-]+$/.test(name) || name === "." || chosen.length === maxNames) continue;
    if (!path.endsWith("/")) {
      const found = await lstat(join(folder, name)).catch(() => undefined);
      if (!found?.isFile() || found.size < largeBytes) continue;
    }
    length += name.length;
    if (length > maxNameLength) break;
    chosen.push(name);
  }
  return chosen;
}

const split = (list: Buffer) => list.toString().split("\0").filter(Boolean);

function* lines(paths: readonly string[]): Generator<string> {
  for (let at = 0; at < paths.length; at += 1000)
    yield paths
      .slice(at, at + 1000)
      .join("\0")
      .concat("\0");
}
