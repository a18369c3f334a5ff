import type { TerminalAction, TerminalObservation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import type { Captured } from "./capture.ts";
import { toControlKeyName } from "./keys.ts";
import { tellsProcessLimit } from "./process-limit.ts";

/** The result of a terminal call. */
export interface TerminalOutcome {
  output: Captured;
  exitCode: number;
  prefix?: string;
  /** A sentence, shown in brackets. */
  note: string;
  isError?: boolean;
}

export interface ShellFacts {
  pid: number;
  username: string;
  hostname: string;
  workingDir: string;
  python: string | undefined;
  /** Limit of the sandbox. */
  maxProcesses: number;
}

/**
 * The observation of a call (events.md section 4; metadata as in agent-behaviour.md section 13).
 */
export function toTerminalObservation(
  action: TerminalAction,
  outcome: TerminalOutcome,
  facts: ShellFacts,
): TerminalObservation {
  const { output, exitCode, prefix = "", isError = false } = outcome;
  const limit = tellsProcessLimit(output.text) ? notes.processes(facts.maxProcesses) : "";
  const note = [outcome.note, limit].filter(Boolean).join(" ");
  const reset = action.reset ? ["[RESET]", action.command].filter(Boolean).join(" ") : undefined;
  return {
    kind: "TerminalObservation",
    content: [textContent(output.text)],
    is_error: isError,
    command: reset ?? action.command,
    exit_code: exitCode,
    timeout: false,
    metadata: {
      exit_code: exitCode,
      pid: facts.pid,
      username: facts.username,
      hostname: facts.hostname,
      working_dir: facts.workingDir,
      ...(facts.python ? { py_interpreter_path: facts.python } : {}),
      prefix,
      suffix: note ? `\n[${note}]` : "",
    },
    ...(output.savedIn ? { full_output_save_dir: output.savedIn } : {}),
  };
}

/** The outcome of a call that runs nothing. */
export function toRefusal(reason: string): TerminalOutcome {
  return { output: { text: reason }, exitCode: -1, note: "", isError: true };
}

const options =
  "You can send an empty command to wait for more output, send other input or a key such as C-c, C-z or C-d with is_input=true, " +
  "or give a longer timeout to the next command.";

/** All sentences of the terminal. */
export const notes = {
  completed(exitCode: number, sent: string | undefined): string {
    const key = sent === undefined ? undefined : toControlKeyName(sent);
    return `The command completed with exit code ${exitCode}.${key ? ` ${key} was sent.` : ""}`;
  },
  quiet: (seconds: number) =>
    `The command is still running; it has had no new output for ${seconds} seconds. ${options}`,
  long: (minutes: number) =>
    `The command has been running for ${minutes} minutes and still prints. Stop it if it never ends by itself. ${options}`,
  time: (seconds: number) => `The command is still running after ${seconds} seconds, its timeout. ${options}`,
  busy: (running: string) =>
    `The command was NOT run: the earlier command ${brief(running)} is still running. ${options}`,
  idle: "Nothing is running in the terminal, so there is no output to wait for and nothing that takes input. Send a command.",
  literal:
    "This is a Python or JSON value, not a shell command; nothing was run. " +
    "To run Python, write a script file and run it, or give it to python3 in a heredoc.",
  nul: "The command holds a NUL character, which a shell cannot take; nothing was run.",
  longInput: (bytes: number) =>
    `The input is longer than the ${bytes} bytes that a terminal takes in a line; nothing was sent. Put it into a file.`,
  reset:
    "The terminal was reset: this is a new shell; its environment, working directory and state were cleared.",
  ended: (code: number | null, signal: string | null, workingDir: string) =>
    `The shell itself ended ${signal ? `by ${signal}` : `with exit code ${code}`}. The next command gets a new shell in ${workingDir}; ` +
    "variables, functions and background jobs of the old one are lost.",
  lost: "The shell did not answer; the exit code of the command is unknown. The next command gets a new shell.",
  renewed: "[The earlier shell has ended; this is a new one.]\n",
  continued: (running: string) => `[Output of the earlier command ${brief(running)} follows.]\n`,
  before: (earlier: string, output: string, note: string) =>
    `[The earlier command ${brief(earlier)} has ended meanwhile; its last output follows.]\n${output}${/(^|\n)$/.test(output) ? "" : "\n"}[${note}]\n`,
  processes: (limit: number) =>
    `The sandbox's limit of ${limit} processes is reached: end programs and background jobs that are no longer needed.`,
  notSent: "It had ended before your input came, which was not sent.",
  background: "[Output of background work since the last command comes first.]\n",
};

function brief(command: string): string {
  const line = command
    .trim()
    .split("\n")
    .map((text) => text.trim())
    .filter((text) => text !== "")
    .join(" ");
  return `\`${line.length > 200 ? `${line.slice(0, 200)}...` : line}\``;
}
