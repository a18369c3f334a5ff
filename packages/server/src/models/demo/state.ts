import type { Done } from "./history.ts";
import { isBetter, readTestRun, type TestRun } from "./test-run.ts";

/** Lists the working folder and its files; tracked and new ones where git knows the folder. */
export const lookCommand =
  "pwd; { git ls-files -co --exclude-standard 2>/dev/null || find . -type f -not -path '*/.*'; } | head -n 300";

export interface Edit {
  path: string;
  oldText: string;
  newText: string;
}

/** What the demo knows, folded from what its tools returned. It holds nothing else. */
export interface State {
  looks: number;
  /** Absolute path of the working folder; undefined until it was seen. */
  root: string | undefined;
  /** Relative to the root. */
  files: string[];
  /** Lines of files as they are with the accepted changes only, by absolute path. */
  accepted: Map<string, string[]>;
  /** Lines as they are now; undefined when a call's outcome is unknown and the file has to be read again. */
  current: Map<string, string[] | undefined>;
  failedViews: Map<string, number>;
  /** Every command that ran tests, with what it gave. */
  runs: Map<string, TestRun[]>;
  /** The run that changes are compared with: the first, or the one of the last accepted change. */
  baseline: TestRun | undefined;
  /** The change that is in a file and not accepted yet. */
  pending: (Edit & { isRejected: boolean; wasUnclear: boolean }) | undefined;
  /** Keys of the changes that were tried, and of those among them that did not get into the file. */
  tried: Set<string>;
  lost: Set<string>;
  kept: Edit[];
  /** The last command did not end: it has to be stopped first. */
  isTerminalBusy: boolean;
  /** The editor could not undo: the change is put back by hand. */
  cannotUndo: boolean;
  hasThought: boolean;
  plans: number;
  calls: number;
}

/** A file that could not be read twice is left alone. */
export const isUnreadable = (state: State, path: string) => (state.failedViews.get(path) ?? 0) >= 2;

export const editKey = ({ path, oldText, newText }: Edit) => JSON.stringify([path, oldText, newText]);

export function foldState(done: readonly Done[]): State {
  const state: State = {
    looks: 0,
    root: undefined,
    files: [],
    accepted: new Map(),
    current: new Map(),
    failedViews: new Map(),
    runs: new Map(),
    baseline: undefined,
    pending: undefined,
    tried: new Set(),
    lost: new Set(),
    kept: [],
    isTerminalBusy: false,
    cannotUndo: false,
    hasThought: false,
    plans: 0,
    calls: done.length,
  };
  for (const call of done) {
    if (call.tool === "terminal") addTerminal(state, call);
    else if (call.tool === "file_editor") addEdit(state, call);
    else if (call.tool === "think") state.hasThought = true;
    else if (call.tool === "task_tracker") state.plans++;
  }
  return state;
}

function addTerminal(state: State, { arguments: args, text, isError }: Done): void {
  const command = String(args.command ?? "");
  if (args.is_input === true) {
    state.isTerminalBusy = false;
  } else if (command === lookCommand) {
    state.looks++;
    const lines = text.split("\n").map((line) => line.trim());
    const start = lines.findIndex((line) => line.startsWith("/"));
    if (isError || start < 0) return;
    state.root = lines[start]!.replace(/\/$/, "");
    state.files = lines
      .slice(start + 1)
      .flatMap((line) => (line === "" || line.startsWith("[") ? [] : [line.replace(/^\.\//, "")]));
  } else {
    const unknown: TestRun = { exitCode: undefined, output: text, failures: 0, passes: 0 };
    addRun(state, command, isError ? unknown : readTestRun(text), isError);
  }
}

/** A run that was interrupted says nothing about the change that it should have judged; one that does not end does. */
function addRun(state: State, command: string, run: TestRun, isError: boolean): void {
  state.runs.set(command, [...(state.runs.get(command) ?? []), run]);
  state.isTerminalBusy = run.exitCode === undefined;
  const { pending } = state;
  if (pending && state.baseline) {
    if (isError && !pending.wasUnclear) {
      pending.wasUnclear = true;
      return;
    }
    if (!isBetter(run, state.baseline)) {
      pending.isRejected = true;
      return;
    }
    state.kept.push(pending);
    state.accepted.set(pending.path, state.current.get(pending.path) ?? state.accepted.get(pending.path)!);
    state.pending = undefined;
    state.baseline = run;
  } else if (run.exitCode !== undefined) {
    state.baseline = run;
  }
}

function addEdit(state: State, { arguments: args, text, isError }: Done): void {
  const path = String(args.path ?? "");
  if (args.command === "view") {
    const lines = isError ? undefined : readView(text);
    if (!lines) state.failedViews.set(path, (state.failedViews.get(path) ?? 0) + 1);
    else addView(state, path, lines);
  } else if (args.command === "undo_edit") {
    if (isError) {
      state.cannotUndo = true;
      state.current.set(path, undefined);
    } else putBack(state, path);
  } else if (args.command === "str_replace") {
    const edit: Edit = { path, oldText: String(args.old_str ?? ""), newText: String(args.new_str ?? "") };
    const isRevert = state.pending?.oldText === edit.newText && state.pending.path === path;
    if (!isRevert) {
      state.tried.add(editKey(edit));
      state.pending = { ...edit, isRejected: false, wasUnclear: false };
    }
    if (isError) state.current.set(path, undefined);
    else if (isRevert) putBack(state, path);
    else state.current.set(path, applied(state, edit));
  }
}

/** What a view shows decides whether a change of unknown outcome is in the file or not. */
function addView(state: State, path: string, lines: string[]): void {
  state.current.set(path, lines);
  const { pending } = state;
  const isPending = pending?.path === path;
  if (isPending && lines.join("\n") === applied(state, pending)?.join("\n")) return;
  state.accepted.set(path, lines);
  if (!isPending) return;
  // The change never came in. It may be tried once more, unless the editor refuses it.
  const key = editKey(pending);
  if (!state.lost.has(key)) state.tried.delete(key);
  state.lost.add(key);
  state.pending = undefined;
  state.cannotUndo = false;
}

function putBack(state: State, path: string): void {
  state.current.set(path, state.accepted.get(path));
  state.pending = undefined;
  state.cannotUndo = false;
}

function applied(state: State, edit: Edit): string[] | undefined {
  // A function as replacement: the text may hold `$&`.
  return state.accepted
    .get(edit.path)
    ?.join("\n")
    .replace(edit.oldText, () => edit.newText)
    .split("\n");
}

/** The lines of a `view` result: `%6d<TAB>text`. Undefined when there are none. */
function readView(text: string): string[] | undefined {
  const lines = [...text.matchAll(/^ *(\d+)\t(.*)$/gm)];
  if (lines.length === 0 || lines[0]![1] !== "1") return undefined;
  return lines.map((line) => line[2]!);
}
