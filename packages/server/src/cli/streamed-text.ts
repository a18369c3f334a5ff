import { contentText, type Event } from "@sandpiper/wire";
import { renderMarkdown } from "./markdown.ts";
import { formatDuration, type Paint } from "./style.ts";

export interface StreamedTextOptions {
  print: (...lines: string[]) => void;
  /** Gets the line that is being written, for a status line. */
  onPartial?: (text: string) => void;
  /** Ms since the beginning. */
  elapsed: () => number;
  columns: () => number;
  paint: Paint;
}

/** Columns before the text of an entry (see `printEvent`). */
const margin = 21;

/** A block of the answer that is longer is printed before its end, characters. */
const maxPending = 20_000;

/**
 * Shows what the agent says as Markdown while it arrives, paragraph by paragraph. The final event
 * repeats the whole text; only the part that was not shown yet is printed then.
 */
export class StreamedText {
  readonly #options: StreamedTextOptions;
  /** All text of the current answer that was printed. */
  #printed = "";
  #pending = "";

  constructor(options: StreamedTextOptions) {
    this.#options = options;
  }

  /** Takes the agent's text out of an event; undefined: nothing else is to be shown. */
  take(event: Event): Event | undefined {
    if (event.kind === "StreamingDeltaEvent") {
      this.#add(event.content ?? "");
      return undefined;
    }
    if (event.kind === "MessageEvent" && event.source === "agent") {
      this.#finish(contentText(event.llm_message.content));
      return undefined;
    }
    const output = runningOutput(event);
    if (output) this.#options.onPartial?.(output);
    if (event.kind !== "ActionEvent") return event;
    this.#finish(contentText(event.thought));
    if (event.action?.kind !== "FinishAction") return { ...event, thought: [] };
    this.#print("finish", event.action.message);
    return undefined;
  }

  #add(text: string): void {
    this.#pending += text;
    for (let end = endOfBlock(this.#pending); end > 0; end = endOfBlock(this.#pending)) {
      this.#take(end);
    }
    if (this.#pending.length > maxPending) this.#take(this.#pending.length);
    this.#options.onPartial?.(this.#pending.trimStart().split("\n").at(-1) ?? "");
  }

  /** Prints what the whole text has beyond the printed part. */
  #finish(whole: string): void {
    const rest = whole.startsWith(this.#printed) ? whole.slice(this.#printed.length) : whole;
    if (rest.trim()) this.#print("says", rest);
    this.#printed = "";
    this.#pending = "";
  }

  #take(length: number): void {
    const block = this.#pending.slice(0, length);
    this.#pending = this.#pending.slice(length);
    if (block.trim()) this.#print("says", block);
    this.#printed += block;
  }

  #print(label: string, text: string): void {
    const { paint, elapsed, columns, print } = this.#options;
    const first = this.#printed === "" || label === "finish";
    const head = first
      ? `${paint("dim", formatDuration(elapsed()).padStart(9))}  ${paint("magenta", label.padEnd(9))} `
      : " ".repeat(margin);
    const lines = renderMarkdown(text.trim(), { paint, columns: columns() - margin });
    if (!first) lines.unshift("");
    print(...lines.map((line, index) => `${index === 0 ? head : " ".repeat(margin)}${line}`.trimEnd()));
  }
}

/** The last line that a running tool printed, in a frame that reports its progress. */
function runningOutput(event: Event): string | undefined {
  if (event.kind !== "ConversationStateUpdateEvent" || event.key !== "agent_state") return undefined;
  const { tool_progress } = event.value as { tool_progress?: { tool_name: string; message?: string } };
  return tool_progress?.message && `${tool_progress.tool_name}: ${tool_progress.message}`;
}

/** The length of the first complete block: up to an empty line that is not inside of code. */
function endOfBlock(text: string): number {
  for (let at = text.indexOf("\n\n"); at >= 0; at = text.indexOf("\n\n", at + 1)) {
    const fences = text.slice(0, at).match(/^ {0,3}(?:```|~~~)/gm)?.length ?? 0;
    if (fences % 2 === 0 && text.slice(0, at).trim()) return at + 2;
  }
  return 0;
}
