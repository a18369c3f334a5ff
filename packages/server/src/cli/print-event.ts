import {
  type ActionEvent,
  contentText,
  type Event,
  type HookExecutionEvent,
  type Observation,
} from "@sandpiper/wire";
import { describeAction } from "./describe-action.ts";
import { inertLine } from "./inert.ts";
import { cut, fitLines, type Shape, wrap } from "./lines.ts";
import { formatDuration, type Paint, plain } from "./style.ts";

export interface PrintOptions {
  /** Milliseconds since the beginning, shown in front of the event. */
  elapsed: number;
  /** Columns of the terminal. */
  columns?: number;
  /** Maximum lines of a tool's output; half of them are from its end. */
  outputLines?: number;
  paint?: Paint;
}

/** On a narrow terminal, the text of an entry goes below its label. */
export function isNarrow(columns: number): boolean {
  return columns < 50;
}

/** Columns before the text of an entry. */
export function textIndent(columns: number): number {
  return isNarrow(columns) ? 4 : 21;
}

/** The value of `agent_state` frames: a run that waits for its turn, and retries of a call. */
interface AgentState {
  run_queue?: { position: number };
  model_retry?: { attempt: number; delay_ms: number; reason: string };
}

/** Formats an event as lines: what happened, and the shortened result. Some frames have no line. */
export function printEvent(event: Event, options: PrintOptions): string[] {
  const { elapsed, columns = 100, outputLines = 12, paint = plain } = options;
  const time = paint("dim", formatDuration(elapsed).padStart(9));
  const indent = textIndent(columns);
  const width = Math.max(columns - 1 - indent, 10);
  const entry = (label: string, text: string, style: Parameters<Paint>[0] = "cyan", shape: Shape = cut) => {
    const [name] = cut(inertLine(label), Math.max(columns - 12, 10)) as [string];
    const head = `${time}  ${paint(style, name.padEnd(9))}`;
    const taken = Math.max(name.length, 9) + 12 - indent;
    const below = taken > width / 2;
    const [first = "", ...rest] = fitLines(text, {
      limit: outputLines,
      width,
      taken: below ? 0 : taken,
      shape,
    });
    const lines = rest.map((line) => `${" ".repeat(indent)}${line}`);
    return below
      ? [head.trimEnd(), `${" ".repeat(indent)}${first}`, ...lines]
      : [`${head} ${first}`, ...lines];
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
      if (event.key !== "agent_state") return [];
      const { run_queue: queue, model_retry: retry } = event.value as AgentState;
      if (queue) return entry("waiting", `for a turn: number ${queue.position} of your waiting runs`, "dim");
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
    const text = contentText(observation.content).replace(/\r\n?/g, "\n").trimEnd();
    if (observation.kind === "TerminalObservation") {
      const code = observation.exit_code ?? observation.metadata.exit_code;
      if (code === -1) {
        const note = toPersonsNote(observation.metadata.suffix);
        const label = !note || /\b(still|been) running\b/.test(note) ? "running" : "note";
        return entry(label, [text, note].filter(Boolean).join("\n") || "(no output)", "yellow", fitOutput);
      }
      return entry(`exit ${code}`, text || "(no output)", code === 0 ? "green" : "red", fitOutput);
    }
    return observation.is_error
      ? entry("failed", text || "(no output)", "red", wrap)
      : entry("done", text || "(no output)", "green");
  }
}

/** A note of the terminal about a command without an exit code, without its advice to the agent. */
function toPersonsNote(suffix: string): string {
  return suffix
    .trim()
    .replace(/^\[|\]$/g, "")
    .replace(/ You can send an empty command .*$/s, "");
}

/** Cuts output, but never a note, nor the rule that would allow what the network refused. */
function fitOutput(line: string, width: number): string[] {
  return /\[Network: |\bnetwork\.(allow|private)\b/.test(line) ? wrap(line, width) : cut(line, width);
}

function isProse({ action }: ActionEvent): boolean {
  return action?.kind === "ThinkAction" || action?.kind === "FinishAction";
}
