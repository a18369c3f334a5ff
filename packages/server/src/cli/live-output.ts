import { contentText, type Event } from "@sandpiper/wire";
import { inert } from "./inert.ts";
import { cut } from "./lines.ts";
import { textIndent } from "./print-event.ts";

export interface LiveOutputOptions {
  print: (...lines: string[]) => void;
  columns: () => number;
  /** How long a command runs before its output is shown, ms; then the result is enough. */
  delayMs?: number;
}

/** Lines of one command that are shown while it runs; its result shows the end of more. */
const maxLines = 200;

const usualDelayMs = 1_000;

/** `tool_progress` of the agent's state. */
interface Progress {
  tool_call_id: string;
  output?: string;
  output_end?: number;
}

/** Characters of one call that are kept. */
const maxKept = 200_000;

/** Characters by which the end of what was shown is found in a long result. */
const markChars = 500;

/**
 * Shows what a long command prints while it runs, each line once, also to a follower who comes
 * while it runs. The result of the command then has only the rest.
 */
export class LiveOutput {
  readonly #options: Required<LiveOutputOptions>;
  /** Ids of the calls that were announced. */
  readonly #announced = new Set<string>();
  #call = "";
  /** Output of the call, and the number of its characters that went before. */
  #text = "";
  #before = 0;
  /** Characters of `#text`, in whole lines, that are shown. */
  #shown = 0;
  #lines = 0;
  #hasGap = false;
  #timer: NodeJS.Timeout | undefined;
  #isDue = false;

  constructor(options: LiveOutputOptions) {
    this.#options = { delayMs: usualDelayMs, ...options };
  }

  /** Takes progress out of an event; returns the event with the part that was not shown. */
  take(event: Event): Event {
    if (event.kind === "ActionEvent") this.#announced.add(event.tool_call_id);
    const progress = progressOf(event);
    if (progress?.output !== undefined) this.#add(progress);
    if (event.kind !== "ObservationEvent" || event.tool_call_id !== this.#call) return event;
    const rest = this.#restOf(contentText(event.observation.content));
    this.#begin("");
    if (rest === undefined) return event;
    const content = [{ type: "text" as const, text: rest.trim() === "" ? "(its output is above)" : rest }];
    return { ...event, observation: { ...event.observation, content } } as Event;
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #begin(call: string): void {
    clearTimeout(this.#timer);
    this.#call = call;
    this.#text = "";
    this.#before = 0;
    this.#shown = 0;
    this.#lines = 0;
    this.#hasGap = false;
    this.#isDue = false;
    if (call === "") return;
    this.#timer = setTimeout(() => {
      this.#isDue = true;
      this.#show();
    }, this.#options.delayMs);
  }

  #add({ tool_call_id, output = "", output_end = output.length }: Progress): void {
    const from = output_end - output.length;
    if (tool_call_id !== this.#call) this.#begin(tool_call_id);
    const known = this.#before + this.#text.length;
    if (from > known || this.#text.length > maxKept) {
      // More was printed than a report has: what follows is shown.
      this.#hasGap = true;
      this.#text = output;
      this.#before = from;
      this.#shown = 0;
    } else this.#text += output.slice(known - from);
    this.#show();
  }

  #show(): void {
    if (!this.#isDue || !this.#announced.has(this.#call) || this.#lines >= maxLines) return;
    const complete = this.#text.slice(this.#shown, this.#text.lastIndexOf("\n") + 1);
    if (complete === "") return;
    const lines = complete
      .split("\n")
      .slice(0, -1)
      .slice(0, maxLines - this.#lines);
    this.#lines += lines.length;
    this.#shown += lines.reduce((sum, line) => sum + line.length + 1, 0);
    const { columns, print } = this.#options;
    const indent = textIndent(columns());
    const fit = (line: string) =>
      `${" ".repeat(indent)}${cut(inert(line).replaceAll("\t", "    "), Math.max(columns() - 1 - indent, 10))[0]}`;
    print(...(this.#hasGap ? ["… earlier output is not shown …"] : []).map(fit), ...lines.map(fit));
    this.#hasGap = false;
  }

  /** What of the whole output was not shown; undefined: nothing of it was shown. */
  #restOf(whole: string): string | undefined {
    const shown = this.#text.slice(0, this.#shown).trimEnd();
    if (shown === "") return undefined;
    if (this.#before === 0 && whole.startsWith(shown)) return whole.slice(shown.length).replace(/^\n/, "");
    const mark = shown.slice(-markChars);
    const at = whole.lastIndexOf(mark);
    return at < 0 ? undefined : whole.slice(at + mark.length).replace(/^\n/, "");
  }
}

function progressOf(event: Event): Progress | undefined {
  if (event.kind !== "ConversationStateUpdateEvent") return undefined;
  const state =
    event.key === "agent_state"
      ? event.value
      : event.key === "full_state"
        ? (event.value as { agent_state?: unknown }).agent_state
        : undefined;
  return (state as { tool_progress?: Progress } | undefined)?.tool_progress;
}
