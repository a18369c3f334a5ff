import { contentText, type Event } from "@sandpiper/wire";
import { renderMarkdown } from "./markdown.ts";
import { isNarrow, textIndent } from "./print-event.ts";
import { formatDuration, type Paint } from "./style.ts";
import { TextBlocks } from "./text-blocks.ts";

export interface StreamedTextOptions {
  print: (...lines: string[]) => void;
  /** Gets the line that is being written, for a status line. */
  onPartial?: (text: string) => void;
  /** Ms since the beginning. */
  elapsed: () => number;
  columns: () => number;
  paint: Paint;
}

/**
 * Shows what the agent says as Markdown while it arrives, paragraph by paragraph. The final event
 * repeats the whole text; only the part that was not shown yet is printed then.
 */
export class StreamedText {
  readonly #options: StreamedTextOptions;
  /** All text of the current answer that was printed. */
  #printed = "";
  #blocks = new TextBlocks();

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
    for (const block of this.#blocks.push(text)) {
      if (block.text.trim()) this.#print("says", block.opening + block.text);
      this.#printed += block.text;
    }
    this.#options.onPartial?.(this.#blocks.line);
  }

  /** Prints what the whole text has beyond the printed part. */
  #finish(whole: string): void {
    const isContinued = whole.startsWith(this.#printed);
    const rest = isContinued ? whole.slice(this.#printed.length) : whole;
    if (rest.trim()) this.#print("says", (isContinued ? this.#blocks.opening : "") + rest);
    this.#printed = "";
    this.#blocks = new TextBlocks();
  }

  #print(label: string, text: string): void {
    const { paint, elapsed, columns, print } = this.#options;
    const first = this.#printed === "" || label === "finish";
    const indent = textIndent(columns());
    const head = `${paint("dim", formatDuration(elapsed()).padStart(9))}  ${paint("magenta", label.padEnd(9))}`;
    const lines = renderMarkdown(text.trim(), { paint, columns: columns() - indent }).map((line) =>
      `${" ".repeat(indent)}${line}`.trimEnd(),
    );
    if (!first) print("", ...lines);
    else if (isNarrow(columns())) print(head.trimEnd(), ...lines);
    else print(`${head} ${(lines[0] ?? "").slice(indent)}`.trimEnd(), ...lines.slice(1));
  }
}

/** The last line that a running tool printed, in a frame that reports its progress. */
function runningOutput(event: Event): string | undefined {
  if (event.kind !== "ConversationStateUpdateEvent" || event.key !== "agent_state") return undefined;
  const { tool_progress } = event.value as { tool_progress?: { tool_name: string; message?: string } };
  return tool_progress?.message && `${tool_progress.tool_name}: ${tool_progress.message}`;
}
