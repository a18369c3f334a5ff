import {
  type Action,
  type ActionEvent,
  contentText,
  type Event,
  type HookExecutionEvent,
  type Observation,
} from "@sandpiper/wire";
import { formatDuration, type Paint, plain, printable } from "./style.ts";

export interface PrintOptions {
  /** Milliseconds since the beginning, shown in front of the event. */
  elapsed: number;
  /** Columns of the terminal. */
  columns?: number;
  /** Maximum lines of a tool's output; half of them are from its end. */
  outputLines?: number;
  paint?: Paint;
}

/** The value of `agent_state` frames during retries of a model call. */
interface AgentState {
  model_retry?: { attempt: number; delay_ms: number; reason: string };
}

/** Formats an event as lines: what happened, and the shortened result. Some frames have no line. */
export function printEvent(event: Event, options: PrintOptions): string[] {
  const { elapsed, columns = 100, outputLines = 12, paint = plain } = options;
  const time = paint("dim", formatDuration(elapsed).padStart(9));
  const width = Math.max(columns - 22, 30);
  const entry = (label: string, text: string, style: Parameters<Paint>[0] = "cyan", shape = cut) => {
    const [first = "", ...rest] = lines(text, outputLines, width, shape);
    return [
      `${time}  ${paint(style, label.padEnd(9))} ${first}`,
      ...rest.map((line) => `${" ".repeat(21)}${line}`),
    ];
  };
  const said = (label: string, text: string) => (text.trim() ? entry(label, text, "magenta", wrap) : []);

  switch (event.kind) {
    case "SystemPromptEvent":
      return entry(
        "ready",
        `the agent has the tools ${event.tools.map(({ title }) => title).join(", ")}`,
        "dim",
      );
    case "MessageEvent":
      if (event.source === "environment")
        return entry("note", contentText(event.llm_message.content), "yellow", wrap);
      return entry(
        event.source,
        contentText(event.llm_message.content),
        event.source === "user" ? "blue" : "magenta",
        wrap,
      );
    case "ActionEvent":
      return [
        ...said("thinks", event.reasoning_content ?? ""),
        ...said("says", contentText(event.thought)),
        ...entry(
          event.tool_name,
          event.action ? describeAction(event.action) : event.tool_call.arguments,
          "cyan",
          isProse(event) ? wrap : cut,
        ),
      ];
    case "ObservationEvent":
      return result(event.observation);
    case "AgentErrorEvent":
      return entry("error", event.error, "red", wrap);
    case "UserRejectObservation":
      return entry(
        "rejected",
        `${event.rejection_source === "hook" ? "by a hook: " : ""}${event.rejection_reason}`,
        "red",
        wrap,
      );
    case "HookExecutionEvent":
      return hook(event);
    case "Condensation":
      return entry("memory", `a summary replaces ${event.forgotten_event_ids.length} events`, "dim");
    case "PauseEvent":
      return entry("paused", "by the user", "yellow");
    case "InterruptEvent":
      return entry("stopped", "by the user", "yellow");
    case "ConversationErrorEvent":
      return entry("error", `${event.code}: ${event.detail}`, "red", wrap);
    case "ServerErrorEvent":
      return entry("error", `${event.code}: ${event.detail}`, "red", wrap);
    case "ConversationStateUpdateEvent": {
      const retry = event.key === "agent_state" && (event.value as AgentState).model_retry;
      if (!retry) return [];
      const text = `attempt ${retry.attempt} failed: ${retry.reason}\nThe next attempt is in ${formatDuration(retry.delay_ms)}.`;
      return entry("model", text, "yellow", wrap);
    }
    default:
      return [];
  }

  /** Only hooks that no other event reports. */
  function hook({
    hook_event_type: type,
    hook_command: command,
    blocked,
    reason,
    error,
  }: HookExecutionEvent): string[] {
    if (error) return entry("hook", `${type} ${command}: ${error}`, "yellow", wrap);
    const isReported = type === "PreToolUse" || type === "Stop";
    return blocked && !isReported ? entry("hook", `${type} blocked: ${reason ?? command}`, "red", wrap) : [];
  }

  function result(observation: Observation): string[] {
    if (observation.kind === "ThinkObservation" || observation.kind === "FinishObservation") return [];
    const text = contentText(observation.content).trimEnd();
    if (observation.kind === "TerminalObservation") {
      const code = observation.exit_code ?? observation.metadata.exit_code;
      const label = observation.timeout ? "running" : `exit ${code}`;
      return entry(label, text || "(no output)", code === 0 ? "green" : code === -1 ? "yellow" : "red");
    }
    return entry(
      observation.is_error ? "failed" : "done",
      text || "(no output)",
      observation.is_error ? "red" : "green",
    );
  }
}

/** Describes an action. */
function describeAction(action: Action): string {
  switch (action.kind) {
    case "TerminalAction":
      if (action.reset) return `(new shell)${action.command ? `\n$ ${action.command}` : ""}`;
      return action.is_input
        ? `(input) ${action.command}`
        : action.command
          ? `$ ${action.command}`
          : "(waits for output)";
    case "GlobAction":
    case "GrepAction":
      return action.path ? `${action.pattern} in ${action.path}` : action.pattern;
    case "FileEditorAction":
    case "PlanningFileEditorAction":
      return [
        `${action.command} ${action.path}`,
        ...changes(action.old_str, "-"),
        ...changes(action.new_str ?? action.file_text, "+"),
      ].join("\n");
    case "TaskTrackerAction":
      return [
        action.command,
        ...action.task_list.map(({ status, title }) => `${taskMarks[status]} ${title}`),
      ].join("\n");
    case "ThinkAction":
      return action.thought;
    case "FinishAction":
      return action.message;
    case "TaskAction":
      return `${action.subagent_type}: ${action.prompt}`;
    case "MCPToolAction":
      return JSON.stringify(action.data);
    case "ApplyPatchAction":
      return action.patch;
    default: {
      const { kind: _kind, ...parameters } = action;
      return Object.entries(parameters)
        .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
        .join("\n");
    }
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

function isProse({ action }: ActionEvent): boolean {
  return action?.kind === "ThinkAction" || action?.kind === "FinishAction";
}

/** Shapes a text to at most `limit` lines of `width` characters and counts omitted lines. */
function lines(
  text: string,
  limit: number,
  width: number,
  shape: (line: string, width: number) => string[],
): string[] {
  const all = printable(text)
    .trimEnd()
    .split("\n")
    .flatMap((line) => shape(line.replaceAll("\t", "    "), width));
  if (all.length <= limit) return all;
  const before = Math.ceil((limit - 1) / 2);
  const after = Math.floor((limit - 1) / 2);
  return [
    ...all.slice(0, before),
    `… ${all.length - before - after} more lines …`,
    ...all.slice(all.length - after),
  ];
}

/** Cuts a line of output or code at the width. */
function cut(line: string, width: number): string[] {
  const characters = Array.from(line);
  return [characters.length > width ? `${characters.slice(0, width - 1).join("")}…` : line];
}

/** Wraps prose at spaces and splits longer words. */
function wrap(line: string, width: number): string[] {
  const done: string[] = [];
  let current = "";
  for (const word of line.split(" ").flatMap((part) => pieces(part, width))) {
    if (current !== "" && current.length + 1 + word.length > width) {
      done.push(current);
      current = word;
    } else current = current === "" ? word : `${current} ${word}`;
  }
  return [...done, current];
}

function pieces(word: string, width: number): string[] {
  const characters = Array.from(word);
  if (characters.length <= width) return [word];
  return Array.from({ length: Math.ceil(characters.length / width) }, (_, at) =>
    characters.slice(at * width, (at + 1) * width).join(""),
  );
}
