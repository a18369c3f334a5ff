import { applyCommand } from "./apply-command.ts";
import { ask, canAsk } from "./ask.ts";
import { ApplyConflict, type Changes, type Patch } from "./changes.ts";
import { inertLine } from "./inert.ts";
import type { Invoker } from "./invoker.ts";
import { keepPatch } from "./keep-patch.ts";
import { formatSentence } from "./notes.ts";
import { page } from "./pager.ts";
import { createPaint } from "./style.ts";

export interface HandOver {
  /** The folder that the changes belong to. */
  folder: string;
  user: Invoker | undefined;
  /** The folder is the user's, so that changes can be applied to it. */
  isOwn: boolean;
  apply: boolean;
  /** Do not ask. */
  yes: boolean;
  /** The agent may not have finished, so that nothing is applied without a question. */
  interrupted?: boolean;
  /** Print the changes; otherwise the caller shows them. */
  shows: boolean;
  /** Merge into files that changed meanwhile, with conflict markers. */
  merge: boolean;
}

/** Whether the folder has the changes, did not get them, or has conflict markers. */
export type Outcome = "applied" | "kept" | "conflicts";

/**
 * Prints the changes of a run, and applies them to the folder if that is wanted. Nothing is lost:
 * changes that were only shown are kept in a file.
 */
export async function handOver(
  changes: Changes,
  patch: Patch | undefined,
  options: HandOver,
): Promise<Outcome> {
  const { folder, apply, yes, isOwn, user, interrupted = false } = options;
  if (!patch) {
    process.stderr.write("Nothing changed.\n");
    return "kept";
  }
  const isShown = options.shows && process.stdout.isTTY === true;
  if (options.shows)
    process.stdout.write(isShown ? await patch.display(createPaint(process.stdout)) : await patch.text());
  const keep = async (error: Error, conflicts = false): Promise<never> => {
    const file = await keepPatch(patch, folder, user);
    throw nameFile(error, describeKept(folder, file, conflicts));
  };
  const asks = !yes && process.stdin.isTTY === true;
  const isWanted = apply && (asks ? await isApproved(patch, folder).catch(keep) : !interrupted);
  if (!isWanted) {
    if ((isShown || apply) && isOwn) {
      const file = await keepPatch(patch, folder, user);
      const begin = apply && !asks ? "The run was interrupted: the" : "The";
      process.stderr.write(
        `${formatSentence(`${begin} folder ${folder} is unchanged. ${describeKept(folder, file, false)}`, process.stderr)}\n`,
      );
    }
    return "kept";
  }
  try {
    await changes.apply(patch);
  } catch (error) {
    const conflicts = error instanceof ApplyConflict;
    if (conflicts && (await mayMerge(error, options).catch((reason) => keep(reason, true))))
      return mergeChanges(changes, patch, options);
    return await keep(error as Error, conflicts);
  }
  process.stderr.write(`Applied to ${inertLine(folder)}.\n`);
  return "applied";
}

/** Asks about what was shown; where the output goes elsewhere, it is shown first. */
async function isApproved(patch: Patch, folder: string): Promise<boolean> {
  for (let seen = process.stdout.isTTY === true; ; seen = true) {
    const answer = (await ask(`Apply these changes to ${inertLine(folder)}? [y/N, v to view] `)) ?? "";
    const agrees = /^y(es)?$/i.test(answer);
    if (!/^v(iew)?$/i.test(answer) && (seen || !agrees)) return agrees;
    await page((await patch.display(createPaint(process.stderr))).split("\n"));
  }
}

async function mayMerge(conflict: ApplyConflict, { merge, yes }: HandOver): Promise<boolean> {
  if (merge || yes || !canAsk()) return merge;
  process.stderr.write(`${inertLine(conflict.message)}\n`);
  const answer = await ask(
    "Merge them and leave conflict markers, or keep them in a file? [m to merge, Enter to keep] ",
  );
  return /^m(erge)?$/i.test(answer ?? "");
}

async function mergeChanges(changes: Changes, patch: Patch, { folder, user }: HandOver): Promise<Outcome> {
  const file = await keepPatch(patch, folder, user);
  const conflicts = await changes.merge(patch).catch((error: Error) => {
    throw nameFile(error, describeKept(folder, file, true));
  });
  process.stderr.write(`Merged into ${inertLine(folder)}.\n`);
  for (const path of conflicts) process.stderr.write(`Conflict markers: ${inertLine(path)}\n`);
  if (conflicts.length > 0) process.stderr.write(`The changes alone are in ${inertLine(file)}.\n`);
  return conflicts.length === 0 ? "applied" : "conflicts";
}

/** Where kept changes are, and on a line of its own the command that applies them. */
function describeKept(folder: string, file: string, conflicts: boolean): string {
  const command = applyCommand(folder, file, { conflicts });
  const how = command.includes(" --3way ")
    ? "commit your own, then apply these with:"
    : command.includes(" --reject ")
      ? "apply what fits, with the rest in files that end with .rej, by:"
      : "apply them with:";
  return `The changes are in ${inertLine(file)}; ${how}\n  ${command}`;
}

function nameFile(error: Error, where: string): Error {
  error.message = `${error.message.replace(/\.?$/, ".")} ${where}`;
  return error;
}
