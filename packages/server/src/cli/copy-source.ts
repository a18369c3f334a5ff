import { relative } from "node:path";
import { isWorkingDir } from "@sandpiper/wire";
import { parseBytes } from "../config/value-parsers.ts";
import { type CopyOptions, type CopyPlan, defaultCopyLimit, isHome, planCopy } from "./copy-plan.ts";
import { CliError, exitCodes } from "./errors.ts";
import { runGit } from "./git.ts";
import { type CopyPart, findGitParts, findRepository } from "./git-folder.ts";
import { inertJson, inertLine } from "./inert.ts";
import { getInvoker } from "./invoker.ts";
import { Progress } from "./progress.ts";
import { createPaint } from "./style.ts";

/** Largest `--copy-limit`, bytes. */
const maxCopyLimit = 2 ** 50;

/** A folder of the user of which a sandbox gets a copy. */
export interface CopySource extends Pick<CopyPlan, "files" | "bytes" | "notes" | "includes"> {
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
 * Reads a folder, with its progress and notes on standard error, and decides what is copied. Throws
 * CliError as `planCopy` does, and for a wrong limit.
 */
export async function readSource(
  folder: string,
  { secrets = false, copyLimit }: { secrets?: boolean; copyLimit?: string },
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
    const source = await openCopySource(folder, { secrets, limit, user, signal, onStep });
    for (const note of source.notes) progress.print(paint("yellow", inertLine(note)));
    return source;
  } finally {
    progress.stop();
  }
}

/** Decides what is copied for work in a folder. Throws CliError as `planCopy` does. */
export async function openCopySource(folder: string, options: CopyOptions): Promise<CopySource> {
  const root = await findRoot(folder, options);
  const { includes, ...plan } = await planCopy(root, options);
  const git = await findGitParts(root);
  const whole: CopyPart = {
    from: root,
    to: ".",
    includes: git ? (path) => path !== ".git" && includes(path) : includes,
  };
  return {
    ...plan,
    includes,
    root,
    place: root === folder ? "" : `\n\n(The user's folder is ${relative(root, folder)} of the repository.)`,
    workingDir: isWorkingDir(root) ? root : undefined,
    parts: [whole, ...(git?.parts ?? [])],
    close: async () => git?.remove(),
  };
}

/** The repository of a folder, unless it ignores the folder or is a home folder. */
async function findRoot(folder: string, { user, signal }: CopyOptions): Promise<string> {
  const repository = await findRepository(folder);
  if (repository === undefined || repository === folder || isHome(repository, user)) return folder;
  const ignored = await runGit(["-c", "core.fsmonitor=false", "check-ignore", "-q", "--", folder], {
    cwd: repository,
    user,
    signal,
    accept: [128],
  }).then(
    () => true,
    () => false,
  );
  return ignored ? folder : repository;
}
