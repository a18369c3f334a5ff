import { shortId } from "../conversations.ts";
import { handOver } from "../hand-over.ts";
import { inertLine } from "../inert.ts";
import { getInvoker } from "../invoker.ts";
import { wrap } from "../lines.ts";
import { formatSentence } from "../notes.ts";
import { formatUsage, type Usage } from "../progress.ts";
import type { Paint } from "../style.ts";
import type { Editor } from "./editor.ts";
import type { Session } from "./session.ts";

/** What the commands of a session use besides the session. */
export interface CommandContext {
  editor: Editor;
  paint: Paint;
  usage: Usage;
  /** Ends the session. */
  end: () => void;
}

interface SessionCommand {
  about: string;
  run: (session: Session, context: CommandContext, argument: string) => Promise<void> | void;
}

const undone = {
  nothing: "There is nothing to undo.",
  done: "The last message is taken back, and the files are as before.",
  applied:
    "The last message is taken back, and the files of the copy are as before. Your folder keeps what was applied: /diff shows what /apply would take back there.",
} as const;

const commands: Record<string, SessionCommand> = {
  help: { about: "list the commands", run: (_session, { editor }) => editor.print(...help()) },
  diff: { about: "show the changes so far", run: (session, context) => hand(session, context, false) },
  apply: {
    about: "apply the changes to the folder; asks first",
    run: (session, context) => hand(session, context, true),
  },
  undo: {
    about: "take the last message back, with everything that followed, files included",
    async run(session, { editor }) {
      editor.print(formatSentence(undone[await session.undo()], process.stdout));
    },
  },
  stop: {
    about: "stop the agent, as Ctrl-C does",
    run: (session) => session.interrupt(),
  },
  model: {
    about: "use another model: /model anthropic/claude-sonnet-4-5",
    async run(session, { editor }, name) {
      if (!name) return editor.print("Name the model: /model anthropic/claude-sonnet-4-5");
      await session.useModel(name);
      editor.print(`The next call uses ${inertLine(name)}.`);
    },
  },
  status: {
    about: "show the conversation, its state and its cost",
    run(session, { editor, usage }) {
      const id = session.conversationId ? shortId(session.conversationId) : "not started";
      editor.print(
        `conversation ${id}, ${session.isRunning ? "works" : "waits for you"}, ${formatUsage(usage)}`,
      );
    },
  },
  exit: { about: "end the session; its conversation can be continued", run: (_session, { end }) => end() },
};

/** Runs a line such as `/model name`. Throws CliError of the command. */
export async function runCommand(line: string, session: Session, context: CommandContext): Promise<void> {
  const end = line.search(/\s|$/);
  const [name, argument] = [line.slice(1, end), line.slice(end)];
  const command =
    name === "quit" ? commands.exit : Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command) await command.run(session, context, argument.trim());
  else context.editor.print(`There is no command /${inertLine(name)}.`, ...help());
}

/** Commands that begin like the line. */
export function completeCommand(line: string): [string[], string] {
  const all = Object.keys(commands).map((name) => `/${name}`);
  return [line.startsWith("/") ? all.filter((name) => name.startsWith(line)) : [], line];
}

function help(): string[] {
  const indent = 11;
  const width = Math.max((process.stdout.columns || 80) - indent - 1, 20);
  const lines = Object.entries(commands).flatMap(([name, { about }]) =>
    wrap(about, width).map((line, row) => `${(row === 0 ? `  /${name}` : "").padEnd(indent)}${line}`),
  );
  const rest = "A line that ends with \\ goes on. A message that begins with // begins with /.";
  return [...lines, ...wrap(rest, width + indent - 2).map((line) => `  ${line}`)];
}

async function hand(session: Session, { editor }: CommandContext, apply: boolean): Promise<void> {
  const patch = await session.patch();
  await editor.without(async () => {
    const outcome = await handOver(session.changes, patch, {
      ...{ folder: session.folder, user: getInvoker(), isOwn: apply },
      ...{ shows: true, apply, yes: false, merge: false },
    });
    if (outcome !== "kept") await session.markApplied();
  });
}
