import type { History } from "./history.ts";
import { type Edit, editKey, foldState, isUnreadable, lookCommand, type State } from "./state.ts";
import { type Candidate, rankCandidates, suspiciousFiles } from "./suspects.ts";
import { didNotRun, testCommands } from "./test-command.ts";
import { mismatches } from "./test-run.ts";

/** What the demo does next: says something, and calls one tool. */
export interface Step {
  say: string;
  tool: string;
  arguments: Record<string, unknown>;
}

const maxTries = 20;
const maxCalls = 120;
const maxSources = 4;
/** Seconds that one run of the tests may take. */
const testTimeout = 60;

export const introduction =
  "I am Sandpiper's built-in demo, not a language model: a small program that can do one thing, repair a failing test by trying small changes. Each of my steps follows from what the tools return.";

/** Decides the next step from what the tools returned so far. `tools` are the names of those that may be called. */
export function decide({ task, done }: History, tools: ReadonlySet<string>): Step {
  const state = foldState(done);
  if (state.calls >= maxCalls) return giveUp(state, `I stop after ${maxCalls} tool calls.`);
  if (state.isTerminalBusy) return terminal("The command did not end; I stop it.", { command: "C-c", is_input: true });
  if (state.root === undefined) {
    if (state.looks >= 2) return finish("I could not list the files of the working folder, so I did nothing.");
    return terminal(state.looks === 0 ? `${introduction} First I look around.` : "I look again.", { command: lookCommand });
  }
  const reread = [...state.current].find(([path, lines]) => lines === undefined && !isUnreadable(state, path));
  if (reread) return view(`I am not sure what ${short(state, reread[0])} holds now, so I read it again.`, reread[0]);
  const found = findCommand(task, state);
  if ("step" in found) return found.step;
  return repair(state, found.command, tools);
}

/** The command that runs the tests, or the step that has to be taken to know it. */
function findCommand(task: string, state: State): { command: string } | { step: Step } {
  const reasons: string[] = [];
  for (const way of testCommands(task, state.files)) {
    let command: string | undefined;
    if ("run" in way) command = way.run;
    else {
      const path = `${state.root}/${way.read}`;
      const lines = state.accepted.get(path);
      if (!lines && !isUnreadable(state, path)) return { step: view(`${way.read} may say how to run the tests.`, path) };
      command = lines && way.pick(lines.join("\n"));
    }
    if (!command) continue;
    const runs = state.runs.get(command) ?? [];
    // The first result tells whether the command fits the project; later ones may suffer from a change that is being tried.
    const first = runs.find((one) => one.exitCode !== undefined);
    if (runs.length === 0) return { step: run(`I run the tests with \`${command}\`.`, command) };
    if (!first) {
      if (runs.length === 1) return { step: run("The tests gave no result; I run them once more.", command) };
      reasons.push(`\`${command}\` did not end within ${testTimeout} seconds`);
    } else if (didNotRun(first.exitCode, first.output)) {
      reasons.push(`\`${command}\` did not run any test`);
    } else return { command };
  }
  return { step: finish(noTests(state, reasons)) };
}

function noTests(state: State, reasons: string[]): string {
  const seen =
    state.files.length === 0
      ? "no files"
      : `${state.files.length} files (${state.files.slice(0, 8).join(", ")}${state.files.length > 8 ? ", …" : ""})`;
  const why = reasons.length > 0 ? `No test could be run: ${reasons.join("; ")}.` : "I found no test that I could run.";
  return `I am a demo, not a language model, and can only repair a failing test. In ${state.root} I saw ${seen}. ${why} I changed nothing. Configure a real model (llm_model and llm_api_key in the settings) for other tasks.`;
}

function repair(state: State, command: string, tools: ReadonlySet<string>): Step {
  const { baseline, pending } = state;
  if (pending) return pending.isRejected ? undo(state, pending) : run("Does that help?", command);
  if (!baseline) return run("I run the tests again.", command);
  if (baseline.exitCode === 0) {
    if (state.kept.length > 0)
      return finish(
        `\`${command}\` passes now. What I changed: ${state.kept.map((edit) => describe(state, edit)).join("; ")}. I am a demo that tries small changes: read the diff before you trust it.`,
      );
    return finish(
      `\`${command}\` passes already, so there is nothing to repair, and I changed nothing. I am a demo, not a language model: I can only repair a failing test.`,
    );
  }
  const sources = suspiciousFiles(state.files, baseline.output, maxSources).map((file) => `${state.root}/${file}`);
  if (!state.hasThought && tools.has("think")) return think(state, command, sources);
  if (state.plans === 0 && tools.has("task_tracker")) return plan(sources.map((path) => short(state, path)));
  const unread = sources.find((path) => !state.accepted.has(path) && !isUnreadable(state, path));
  if (unread) return view(`I read ${short(state, unread)}.`, unread);
  return tryNext(state, sources, baseline);
}

function tryNext(state: State, sources: string[], baseline: NonNullable<State["baseline"]>): Step {
  const readable = new Map(
    sources.flatMap((path) => (state.accepted.has(path) ? [[path, state.accepted.get(path)!] as const] : [])),
  );
  if (readable.size === 0) return giveUp(state, "I found no source file that I could read.");
  if (state.tried.size >= maxTries) return giveUp(state, `I tried ${maxTries} small changes.`);
  for (const candidate of rankCandidates(readable, baseline)) {
    const edit = toEdit(candidate, readable.get(candidate.path)!);
    if (!edit || state.tried.has(editKey(edit))) continue;
    return {
      say: `Line ${candidate.index + 1} of ${short(state, candidate.path)} looks suspicious: I try ${candidate.what}.`,
      tool: "file_editor",
      arguments: { command: "str_replace", path: edit.path, old_str: edit.oldText, new_str: edit.newText },
    };
  }
  return giveUp(state, `I tried all ${state.tried.size} small changes that I know of.`);
}

/** The replacement of one line, with as many lines around it as it takes to be found exactly once. */
function toEdit(candidate: Candidate, lines: readonly string[]): Edit | undefined {
  const text = lines.join("\n");
  for (let around = 0; around <= 6; around++) {
    const from = Math.max(0, candidate.index - around);
    const old = lines.slice(from, candidate.index + around + 1);
    const oldText = old.join("\n");
    if (text.indexOf(oldText) !== text.lastIndexOf(oldText)) continue;
    const newText = old.map((line, at) => (from + at === candidate.index ? candidate.line : line)).join("\n");
    return { path: candidate.path, oldText, newText };
  }
  return undefined;
}

function undo(state: State, pending: Edit): Step {
  const say = "That does not help, so I take it back.";
  if (!state.cannotUndo) return { say, tool: "file_editor", arguments: { command: "undo_edit", path: pending.path } };
  return {
    say,
    tool: "file_editor",
    arguments: { command: "str_replace", path: pending.path, old_str: pending.newText, new_str: pending.oldText },
  };
}

function think(state: State, command: string, sources: string[]): Step {
  const { output, failures } = state.baseline!;
  const wrong = mismatches(output).slice(0, 3);
  const seen = wrong.map(({ expected, actual }) => `expected ${expected} but got ${actual}`).join("; ");
  const count = failures > 0 ? `${failures} failing` : "a failure";
  const where =
    sources.length > 0 ? sources.map((path) => short(state, path)).join(", ") : "no source file that I know how to change";
  const thought = `\`${command}\` reports ${count}${seen ? `: ${seen}` : ""}. Suspects: ${where}. I look for one small change (an operator, a constant, a condition) that explains this, and keep it only if the tests say so.`;
  return { say: "The tests fail. I think about why.", tool: "think", arguments: { thought } };
}

function plan(sources: string[]): Step {
  const task_list = [
    { title: "Reproduce the failure", notes: "", status: "done" },
    { title: "Repair it with a small change", notes: sources.join(", "), status: "in_progress" },
    { title: "Run the tests again", notes: "", status: "todo" },
  ];
  return { say: "", tool: "task_tracker", arguments: { command: "plan", task_list } };
}

function giveUp(state: State, why: string): Step {
  const run = state.baseline;
  const tail = run ? run.output.trim().split("\n").slice(-12).join("\n") : "(no test result)";
  const kept =
    state.kept.length > 0
      ? `What helped a little stays in: ${state.kept.map((edit) => describe(state, edit)).join("; ")}.`
      : "The files are as they were.";
  const undone = state.pending ? ` One change may still be in ${short(state, state.pending.path)}.` : "";
  return finish(
    `I give up: the tests still fail. ${why} ${kept}${undone} I am a demo, not a language model; a real model may see more. The end of the output:\n${tail}`,
  );
}

function describe(state: State, { path, oldText, newText }: Edit): string {
  const [before, after] = [oldText.split("\n"), newText.split("\n")];
  const at = before.findIndex((line, index) => line !== after[index]);
  return `in ${short(state, path)} \`${before[at]?.trim()}\` became \`${after[at]?.trim()}\``;
}

const short = (state: State, path: string) =>
  state.root && path.startsWith(`${state.root}/`) ? path.slice(state.root.length + 1) : path;

const finish = (message: string): Step => ({ say: "", tool: "finish", arguments: { message } });

const view = (say: string, path: string): Step => ({ say, tool: "file_editor", arguments: { command: "view", path } });

const run = (say: string, command: string): Step => terminal(say, { command, timeout: testTimeout });

const terminal = (say: string, args: Record<string, unknown>): Step => ({ say, tool: "terminal", arguments: args });
