import type { NetworkProblem } from "@sandpiper/sandbox/network/api";
import { toKeyCharacters } from "@sandpiper/sandbox/shell/terminal/keys";
import { quoteWord } from "@sandpiper/sandbox/shell/terminal/quote";
import type { Content, TerminalAction, TerminalObservation } from "@sandpiper/wire";
import { contentText, textContent } from "@sandpiper/wire";
import { Type } from "typebox";
import { commandRisk } from "../risk/pattern.ts";
import { toolDefinition } from "./definition.ts";
import type { Tool, ToolContext } from "./tool.ts";

const description = `Runs a shell command in a persistent terminal session of the sandbox.

- State persists between calls: working directory, environment variables, functions, background jobs.
- One command a call. Chain several with && or ; on one line. Compound commands and heredocs may span lines.
- A command that prints nothing new for 30 seconds, or that reaches its timeout, goes on running, and the call answers with exit code -1. Then send an empty command to wait for more output, text or a key with is_input=true to answer it, or C-c with is_input=true to stop it. No other command can be run meanwhile.
- Give commands that take long a timeout in seconds, or run them in the background with their output in a file: cmd > /tmp/cmd.log 2>&1 &
- Very long output is cut in the middle; the result then names a file in the sandbox that holds all of it.
- Avoid commands that wait for input or open a pager or an editor. Never run "exit" or "set -e" in the session itself.
- reset=true starts a new shell; use it only when the terminal does not answer any more.`;

/** Models use these program names as tool names. */
const programs = ["git", "reset", "find", "ls", "pwd"];

/** Longest end of the output that is looked through for its last line, characters. */
const maxTail = 2_000;

/**
 * Reports a command's output while the command runs, and its last complete line: an incomplete line
 * could hold a part of a secret, which nothing masks there.
 */
function makeLineReporter({
  onProgress,
}: Pick<ToolContext, "onProgress">): ((text: string) => void) | undefined {
  if (!onProgress) return undefined;
  let characters = 0;
  let tail = "";
  return (text) => {
    characters += text.length;
    tail = (tail + text).slice(-maxTail);
    const line = tail
      .slice(0, tail.lastIndexOf("\n") + 1)
      .trimEnd()
      .split("\n")
      .at(-1);
    onProgress({ progress: characters, output: text, ...(line?.trim() && { message: line }) });
  };
}

/** The persistent shell (agent-behaviour.md section 13). */
export const terminalTool: Tool<TerminalAction, TerminalObservation> = {
  name: "terminal",
  description,
  definition: toolDefinition("terminal", "Terminal", description, "destructive", "openWorld"),
  parameters: Type.Object({
    command: Type.String({
      description:
        "One shell command. Empty: read more output of the running one. With is_input it may be the name of a key: " +
        "C-c C-d C-z C-<letter> UP DOWN LEFT RIGHT HOME END PGUP PGDN TAB ESC BS ENTER.",
    }),
    is_input: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          "True: the command is input for the running program; Enter is added, except after a key.",
      }),
    ),
    timeout: Type.Optional(
      Type.Number({
        minimum: 0,
        description:
          "Seconds after which the call answers while the command goes on. Without it the call answers after 30 seconds without new output.",
      }),
    ),
    reset: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          "True: replace the shell by a new one, then run the command if there is one. Not with is_input.",
      }),
    ),
  }),
  actionKind: "TerminalAction",
  aliases: ["bash", "command", "execute", "execute_bash", ...programs],
  render: { kind: "TerminalObservation", content: renderTerminal },
  risk: ({ command }) => commandRisk(command),
  idempotent: false,
  readOnly: false,
  continues: isCommand,
  resources: () => ["terminal"],

  completeArguments(received, alias) {
    if (!programs.includes(alias)) return received;
    const { command, path, ...rest } = received;
    const given = typeof command === "string" ? command.trim() : "";
    const words = given === alias || given.startsWith(`${alias} `) ? [given] : [alias, given];
    if (typeof path === "string") words.push(quoteWord(path));
    return { ...rest, command: words.filter(Boolean).join(" ") };
  },

  async run(action, context) {
    const terminal = await context.terminal();
    const { watchNetwork } = await context.sandbox();
    const endWatch = watchNetwork?.();
    try {
      const { actionId, isRepeated = false } = context;
      const call = isCommand(action) ? { id: actionId.replaceAll(/\W/g, ""), isRepeated } : undefined;
      const observation = await terminal.run(action, context.signal, makeLineReporter(context), call);
      return withNetworkProblems(observation, endWatch?.() ?? []);
    } finally {
      endWatch?.();
    }
  },
};

/** Whether the terminal can continue an action: not input, a look at the command, or a reset. */
function isCommand({ command, is_input, reset }: TerminalAction): boolean {
  return !is_input && !reset && command.trim() !== "" && toKeyCharacters(command) === undefined;
}

/** Problems that are shown in full. */
const shownProblems = 5;

/**
 * Adds what the network refused. Most programs show only a status such as "response 403", so that
 * neither the model nor a reader learns what would have to be allowed.
 */
function withNetworkProblems(
  observation: TerminalObservation,
  problems: readonly NetworkProblem[],
): TerminalObservation {
  const output = contentText(observation.content);
  const untold = problems.filter(({ sentence }) => !output.includes(sentence));
  if (untold.length === 0) return observation;
  const lines = untold.slice(0, shownProblems).map(({ sentence }) => `[Network: ${sentence}]`);
  const more = untold.length - lines.length;
  if (more > 0) lines.push(`[Network: ${more} other requests failed too.]`);
  const text = [output.replace(/\n$/, ""), ...lines].filter(Boolean).join("\n");
  return { ...observation, content: [textContent(text)] };
}

/** Output and facts of a command (agent-behaviour.md section 13). */
function renderTerminal({ content, metadata }: TerminalObservation): Content[] {
  const facts = [
    metadata.working_dir ? `[Current working directory: ${metadata.working_dir}]` : "",
    metadata.py_interpreter_path ? `[Python interpreter: ${metadata.py_interpreter_path}]` : "",
    metadata.exit_code === -1 ? "" : `[Exit code: ${metadata.exit_code}]`,
  ];
  const text = `${metadata.prefix}${contentText(content)}${metadata.suffix}`;
  return [textContent([text, ...facts].filter(Boolean).join("\n"))];
}
