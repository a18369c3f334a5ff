import type { ModelMessage } from "@sandpiper/models/model";
import { dropNote, summaryMessage } from "./view-messages.ts";
import { imagesToDrop, tooMany, ViewTotals, withoutImages } from "./view-totals.ts";

/** Messages and estimated tokens; above them a quarter is dropped. */
const maxList = { messages: 20_000, tokens: 3_000_000 };

/** The messages of a view, within limits. */
export class MessageList {
  readonly messages: ModelMessage[] = [];
  readonly totals = new ViewTotals();
  #dropNote: ModelMessage | undefined;

  /** Appends a message. Returns true when older ones before `closed` were dropped. */
  push(message: ModelMessage, closed: () => number): boolean {
    this.messages.push(message);
    if (tooMany(this.totals.images)) this.#dropImages();
    const isTooMuch = this.messages.length > maxList.messages || this.totals.tokens > maxList.tokens;
    return isTooMuch && this.#dropOldest(closed());
  }

  /** Removes the events' messages and whole calls, and inserts a summary after `offset` events. */
  forget(eventIds: readonly string[], summary: string | null | undefined, offset: number): void {
    const forgotten = new Set(eventIds);
    const calls = new Set<string>();
    // The system prompt is the first event of a view.
    let position = 1;
    let place = 0;
    const kept: ModelMessage[] = [];
    for (const message of this.messages) {
      const sources = this.totals.sources(message);
      const isForgotten =
        message.role === "tool"
          ? calls.has(message.toolCallId)
          : sources.some((id) => forgotten.has(id)) || sources.length === 0;
      if (isForgotten && message.role === "assistant") for (const { id } of message.toolCalls) calls.add(id);
      if (isForgotten) {
        this.totals.remove(message);
        continue;
      }
      kept.push(message);
      position += sources.length;
      if (position <= offset) place = kept.length;
    }
    if (summary) {
      const message = summaryMessage(summary);
      this.totals.add(message, []);
      kept.splice(place, 0, message);
    }
    this.messages.splice(0, this.messages.length, ...kept);
  }

  reset(): void {
    this.messages.length = 0;
    this.totals.reset();
  }

  #dropImages(): void {
    const holders = this.messages.filter((message) => this.totals.hasImages(message));
    const dropped = new Set(imagesToDrop(holders));
    for (const [index, message] of this.messages.entries()) {
      if (!dropped.has(message)) continue;
      const replacement = withoutImages(message);
      this.totals.remove(message);
      this.totals.add(replacement, this.totals.sources(message));
      this.messages[index] = replacement;
    }
  }

  /** Drops messages after the first user message and a summary, down to 75% of the limit. */
  #dropOldest(closed: number): boolean {
    const { messages, totals } = this;
    let first = messages.findIndex(({ role }) => role === "user") + 1;
    while (first < closed && totals.sources(messages[first]!).length === 0) first += 1;
    let end = first;
    const isTooMuch = () =>
      messages.length - (end - first) > maxList.messages * 0.75 || totals.tokens > maxList.tokens * 0.75;
    while (end < closed && (isTooMuch() || messages[end]!.role === "tool")) totals.remove(messages[end++]!);
    if (end === first) return false;
    const notes = messages[first - 1] === this.#dropNote ? [] : [dropNote()];
    for (const note of notes) {
      totals.add(note, []);
      this.#dropNote = note;
    }
    messages.splice(first, end - first, ...notes);
    return true;
  }
}
