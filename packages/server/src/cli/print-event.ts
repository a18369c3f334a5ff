import { type Action, contentText, type Event, type Observation } from "@sandpiper/wire";
import { duration, type Paint, plain, printable } from "./style.ts";

export interface PrintOptions {
  /** Milliseconds since the beginning, shown before the event. */
  elapsed: number;
  /** Columns of the terminal. */
  columns?: number;
  /** Lines of a tool's output that are shown, half of them from its end. */
  outputLines?: number;
  paint?: Paint;
}

/** An event as lines for a person: what happened, on what, and the shortened result. Frames that tell nothing to a person give no line. */
export function printEvent(event: Event, options: PrintOptions): string[] {
  const { elapsed, columns = 100, outputLines = 12, paint = plain } = options;
  const time = paint("dim", duration(elapsed).padStart(9));
  const width = Math.max(columns - 22, 30);
  const entry = (label: string, text: string, style: Parameters<Paint>[0] = "cyan") => {
    const [first = "", ...rest] = lines(text, outputLines, width);
    return [`${time}  ${paint(style, label.padEnd(9))} ${first}`, ...rest.map((line) => `${" ".repeat(21)}${line}`)];
  };
  const said = (label: string, text: string) => (text.trim() ? entry(label, text, "magenta") : []);

  switch (event.kind) {
    case "SystemPromptEvent":
      return entry("ready", `the agent has the tools ${event.tools.map(({ title }) => title).join(", ")}`, "dim");
    case "MessageEvent":
      return entry(event.source, contentText(event.llm_message.content), event.source === "user" ? "blue" : "magenta");
    case "ActionEvent":
      return [
        ...said("thinks", event.reasoning_content ?? ""),
        ...said("says", contentText(event.thought)),
        ...entry(event.tool_name, event.action ? describeAction(event.action) : event.tool_call.arguments),
      ];
    case "ObservationEvent":
      return result(event.observation);
    case "AgentErrorEvent":
      return entry("error", event.error, "red");
    case "UserRejectObservation":
      return entry("rejected", event.rejection_reason, "red");
    case "PauseEvent":
      return entry("paused", "by the user", "yellow");
    case "InterruptEvent":
      return entry("stopped", "by the user", "yellow");
    case "ConversationErrorEvent":
      return entry("error", `${event.code}: ${event.detail}`, "red");
    case "ServerErrorEvent":
      return entry("error", `${event.code}: ${event.detail}`, "red");
    default:
      return [];
  }

  function result(observation: Observation): string[] {
    if (observation.kind === "ThinkObservation" || observation.kind === "FinishObservation") return [];
    const text = contentText(observation.content).trimEnd();
    if (observation.kind === "TerminalObservation") {
      const code = observation.exit_code ?? observation.metadata.exit_code;
      const label = observation.timeout ? "running" : `exit ${code}`;
      return entry(label, text || "(no output)", code === 0 ? "green" : code === -1 ? "yellow" : "red");
    }
    return entry(observation.is_error ? "failed" : "done", text || "(no output)", observation.is_error ? "red" : "green");
  }
}

/** What an action does, in the words of its tool. */
function describeAction(action: Action): string {
  switch (action.kind) {
    case "TerminalAction":
      if (action.reset) return `(new shell)${action.command ? `\n$ ${action.command}` : ""}`;
      return action.is_input ? `(input) ${action.command}` : action.command ? `$ ${action.command}` : "(waits for output)";
    case "FileEditorAction":
      return [
        `${action.command} ${action.path}`,
        ...changes(action.old_str, "-"),
        ...changes(action.new_str ?? action.file_text, "+"),
      ].join("\n");
    case "TaskTrackerAction":
      return [action.command, ...action.task_list.map(({ status, title }) => `${taskMarks[status]} ${title}`)].join("\n");
    case "ThinkAction":
      return action.thought;
    case "FinishAction":
      return action.message;
  }
}

const taskMarks = { todo: "[ ]", in_progress: "[~]", done: "[x]" } as const;

function changes(text: string | null | undefined, sign: string): string[] {
  return text
    ? text
        .replace(/\n$/, "")
        .split("\n")
        .map((line) => `${sign} ${line}`)
    : [];
}

/** A text as at most `limit` lines of at most `width` characters; what is left out is counted. */
function lines(text: string, limit: number, width: number): string[] {
  const all = printable(text).trimEnd().split("\n");
  const shown =
    all.length <= limit
      ? all
      : [
          ...all.slice(0, Math.ceil((limit - 1) / 2)),
          `… ${all.length - limit + 1} more lines …`,
          ...all.slice(all.length - Math.floor((limit - 1) / 2)),
        ];
  return shown.map((line) => {
    const characters = Array.from(line.replaceAll("\t", "    "));
    return characters.length > width ? `${characters.slice(0, width - 1).join("")}…` : characters.join("");
  });
}
