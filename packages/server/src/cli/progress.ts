import type { Event, Stats } from "@sandpiper/wire";
import { executionStatus } from "./follow.ts";
import { inertLine } from "./inert.ts";
import { cut } from "./lines.ts";
import { printEvent } from "./print-event.ts";
import { formatDuration, type Paint } from "./style.ts";

const frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/** Characters of an activity that are looked at. */
const maxActivity = 300;

/** Tokens (prompt and completion) and USD of a conversation so far. */
export interface Usage {
  tokens: number;
  cost: number;
}

/** The usage in a `stats` state update or a `full_state` frame, if any. */
export function toUsage(event: Event): Usage | undefined {
  if (event.kind !== "ConversationStateUpdateEvent") return undefined;
  const stats =
    event.key === "stats"
      ? event.value
      : event.key === "full_state"
        ? (event.value as { stats?: unknown }).stats
        : undefined;
  const metrics = Object.values((stats as Stats | undefined)?.usage_to_metrics ?? {});
  if (metrics.length === 0) return undefined;
  const tokens = (usage: Stats["usage_to_metrics"][string]["accumulated_token_usage"]) =>
    (usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0);
  return {
    tokens: metrics.reduce((sum, { accumulated_token_usage: usage }) => sum + tokens(usage), 0),
    cost: metrics.reduce((sum, { accumulated_cost: cost }) => sum + cost, 0),
  };
}

/** `3,210 tokens, $0.0123`. */
export function formatUsage({ tokens, cost }: Usage): string {
  return `${tokens.toLocaleString("en-US")} tokens, $${cost.toFixed(4)}`;
}

/**
 * Shows a run on a stream: lines for every event and, on a terminal, a live status line with time,
 * tokens, cost and activity.
 */
export class Progress {
  usage: Usage = { tokens: 0, cost: 0 };
  /** Arrival of the agent's first event, ms since the start. */
  firstEvent: number | undefined;
  readonly #stream: NodeJS.WriteStream;
  readonly #paint: Paint;
  readonly #started = performance.now();
  #doing: string;
  #frame = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(stream: NodeJS.WriteStream, paint: Paint, doing: string) {
    this.#stream = stream;
    this.#paint = paint;
    this.#doing = inertLine(doing.slice(0, maxActivity));
    this.#start();
  }

  /** Milliseconds since the start. */
  get elapsed(): number {
    return performance.now() - this.#started;
  }

  event(event: Event): void {
    const { kind } = event;
    if (kind !== "ConversationStateUpdateEvent") this.firstEvent ??= this.elapsed;
    this.usage = toUsage(event) ?? this.usage;
    if (kind === "ActionEvent") this.doing(event.summary ?? `uses ${event.tool_name}`);
    else if (kind === "ObservationEvent" || executionStatus(event) === "running")
      this.doing("asks the model");
    const columns = this.#stream.columns || 100;
    this.print(...printEvent(event, { elapsed: this.elapsed, columns, paint: this.#paint }));
  }

  /** Sets the activity in the status line. */
  doing(text: string): void {
    this.#doing = inertLine(text.slice(0, maxActivity));
  }

  print(...lines: string[]): void {
    if (lines.length === 0) return;
    this.#clear();
    this.#stream.write(`${lines.join("\n")}\n`);
  }

  /** Removes the status line. */
  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#clear();
  }

  /** Runs `work` without the status line, which does not come back after a failure. */
  async without<T>(work: () => Promise<T>): Promise<T> {
    this.stop();
    const done = await work();
    this.#start();
    return done;
  }

  #start(): void {
    if (!this.#stream.isTTY) return;
    this.#timer = setInterval(() => this.#draw(), 100);
    this.#draw();
  }

  #draw(): void {
    const spinner = frames[this.#frame++ % frames.length];
    const usage = this.usage.tokens > 0 ? `${formatUsage(this.usage)}, ` : "";
    const line = `${spinner} ${formatDuration(this.elapsed)}, ${usage}${this.#doing}`;
    const [shown = ""] = cut(line, Math.max((this.#stream.columns || 100) - 1, 10));
    this.#stream.write(`\r\x1b[K${this.#paint("dim", shown)}`);
  }

  #clear(): void {
    if (this.#stream.isTTY) this.#stream.write("\r\x1b[K");
  }
}
