import { relative } from "node:path";
import { isWorkingDir } from "@sandpiper/wire";
import { parseBytes } from "../config/value-parsers.ts";
import { ask, canAsk } from "./ask.ts";
import {
  type CopyOptions,
  type CopyPlan,
  defaultCopyLimit,
  isHome,
  listPaths,
  planCopy,
} from "./copy-plan.ts";
import { CliError, exitCodes } from "./errors.ts";
import { askForeignGit, findRepository, GitStuck } from "./foreign-git.ts";
import { type CleanedGitFiles, cleanGitFiles } from "./git-credentials.ts";
import { type CopyPart, findGitParts } from "./git-folder.ts";
import { inertJson, inertLine } from "./inert.ts";
import { getInvoker } from "./invoker.ts";
import { formatNotes } from "./notes.ts";
import { page } from "./pager.ts";
import { Progress } from "./progress.ts";
import { createPaint } from "./style.ts";

/** Largest `--copy-limit`, bytes. */
const maxCopyLimit = 2 ** 50;

/** A folder of the user of which a sandbox gets a copy. */
export interface CopySource extends CopyPlan {
  /** The folder that is copied: the repository, where the user's folder is in one. */
  root: string;
  /** The same path in the sandbox, so that virtual environments work; undefined: the spec's. */
  workingDir: string | undefined;
  /** For the agent: where in the repository the user's folder is. */
  place: string;
  parts: CopyPart[];
  close(): Promise<void>;
}

/**
 * Reads a folder, with its progress and notes on standard error, and decides what is copied. With
 * `yes`, secret files are left out without a question. Throws CliError as `planCopy` does, and for
 * a wrong limit.
 */
export async function readSource(
  folder: string,
  { secrets, yes, copyLimit }: { secrets?: boolean; yes?: boolean; copyLimit?: string },
  signal: AbortSignal,
): Promise<CopySource> {
  const limit = copyLimit === undefined ? defaultCopyLimit : parseBytes(copyLimit, 1, maxCopyLimit);
  if (limit === undefined)
    throw new CliError(`--copy-limit takes a size such as 20G, not ${inertJson(copyLimit)}.`, {
      exitCode: exitCodes.usage,
    });
  const paint = createPaint(process.stderr);
  const progress = new Progress(process.stderr, paint, "reads the folder");
  try {
    const user = getInvoker();
    const onStep = (text: string) => progress.doing(text);
    const options = { limit, user, signal, onStep };
    const source = await openCopySource(folder, { ...options, secrets: secrets === true });
    const left = source.secrets;
    const asks = left.length > 0 && secrets === undefined && !yes;
    if (asks && (await progress.without(() => askAboutSecrets(left)))) {
      await source.close();
      return await openCopySource(folder, { ...options, secrets: true });
    }
    const notes =
      left.length > 0
        ? [`Not copied, because they may hold secrets: ${listPaths(left)}. --secrets copies them.`]
        : [];
    progress.print(...formatNotes([...notes, ...source.notes]));
    return source;
  } finally {
    progress.stop();
  }
}

/** On a terminal, asks whether the sandbox gets files that may hold secrets. */
async function askAboutSecrets(paths: readonly string[]): Promise<boolean> {
  if (!canAsk()) return false;
  process.stderr.write(`These may hold secrets: ${inertLine(listPaths(paths))}.\n`);
  for (;;) {
    const answer = await ask("Copy them, so that the agent can read them? [y/N, v to view the list] ");
    if (!/^v(iew)?$/i.test(answer ?? "")) return /^y(es)?$/i.test(answer ?? "");
    await page(paths.map(inertLine));
  }
}

/** Decides what is copied for work in a folder. Throws CliError as `planCopy` does. */
export async function openCopySource(folder: string, options: CopyOptions): Promise<CopySource> {
  const root = await findRoot(folder, options);
  const plan = await planCopy(root, options);
  const git = await findGitParts(root, options.user);
  const cleaned = options.secrets ? [] : await cleanParts(root, plan, git?.parts ?? []);
  const own = cleaned[0]?.paths ?? new Set();
  const includes = (path: string) => plan.includes(path) && !own.has(path);
  const whole: CopyPart = {
    from: root,
    to: ".",
    includes: git ? (path) => path !== ".git" && includes(path) : includes,
  };
  const isCleaned = cleaned.some(({ paths }) => paths.size > 0);
  return {
    ...plan,
    notes: [
      ...plan.notes,
      ...(git?.note ? [git.note] : []),
      ...(isCleaned ? ["Not copied: credentials in the files of git. --secrets copies them."] : []),
    ],
    root,
    place: root === folder ? "" : `\n\n(The user's folder is ${relative(root, folder)} of the repository.)`,
    workingDir: isWorkingDir(root) ? root : undefined,
    parts: [
      whole,
      ...(git?.parts ?? []).map((part, at) => withoutPaths(part, cleaned[at + 1]?.paths)),
      ...cleaned.flatMap(({ parts }) => parts),
    ],
    close: async () => {
      await git?.remove();
      for (const one of cleaned) await one.remove();
    },
  };
}

/** Looks for credentials of git in the folder, and in each part of its repository elsewhere. */
async function cleanParts(
  root: string,
  { repositories, includes }: CopyPlan,
  parts: readonly CopyPart[],
): Promise<CleanedGitFiles[]> {
  const own = cleanGitFiles({ from: root, to: ".", includes }, repositories);
  return Promise.all([own, ...parts.map((part) => cleanGitFiles(part, ["."]))]);
}

function withoutPaths(part: CopyPart, left: ReadonlySet<string> = new Set()): CopyPart {
  const { includes = () => true } = part;
  return { ...part, includes: (path) => includes(path) && !left.has(path) };
}

/** The repository of a folder, unless it ignores the folder or is a home folder. */
async function findRoot(folder: string, { user, signal }: CopyOptions): Promise<string> {
  const repository = findRepository(folder);
  if (repository === undefined || repository === folder || isHome(repository, user)) return folder;
  const ignored = await askForeignGit(["check-ignore", "-q", "--", folder], {
    cwd: repository,
    user,
    signal,
    accept: [128],
  }).then(
    () => true,
    (error) => {
      if (error instanceof GitStuck) throw error;
      return false;
    },
  );
  return ignored ? folder : repository;
}
