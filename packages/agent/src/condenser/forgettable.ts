import type { ModelMessage } from "@sandpiper/models/model";
import type { View } from "../prompt/view.ts";

/** A part of the history that can be forgotten. */
export interface Forgettable {
  /** What a summary is made of: what is forgotten, and the words of the user among it that stay. */
  messages: ModelMessage[];
  eventIds: string[];
  /** Where the summary goes: the number of events of the view before it, the system prompt being the first. */
  offset: number;
  /** Tokens that go, by estimate. */
  tokens: number;
}

/** How much of a history stays. */
export interface Target {
  /** Events at the beginning, the system prompt included; the first message of the user always stays. */
  keepFirst: number;
  /** Events in all. Default: half of the messages. */
  events?: number | undefined;
  /** Tokens in all, by estimate. */
  tokens?: number | undefined;
  /** The least part of the events, or of the tokens where these decide, that has to go. */
  progress?: number | undefined;
}

/** Events that one summary stands for at most: a very long history is summarised piece by piece, and each summary takes the one before in. */
const mostEvents = 10_000;

/**
 * The part of the history behind its beginning that has to go so that no more than the target stays (agent-behaviour.md section 6). Calls stay with their results,
 * what is still open and the newest answer stay, and so does the latest message of the user. Undefined where there is nothing worth a summary.
 */
export function forgettable(view: View, target: Target): Forgettable | undefined {
  const { messages, closed } = view;
  const first = endOfBeginning(view, target.keepFirst);
  // The newest answer and its results may not have been used yet.
  let latest = closed - 1;
  while (latest > first && messages[latest]?.role === "tool") latest -= 1;
  const beginning = messages
    .slice(0, first)
    .reduce((sum, message) => sum + view.tokensOf(message), view.systemTokens);
  const head = messages.slice(0, first).reduce((sum, message) => sum + countOf(view, message), 1);
  const { events, tokens } = target;
  // The summary takes a place too.
  const room = { events: (events ?? 0) - head - 1, tokens: (tokens ?? 0) - beginning };
  let start = messages.length;
  const least =
    events === undefined && tokens === undefined ? first + Math.ceil((messages.length - first) / 2) : first;
  while (start > least) {
    const message = messages[start - 1]!;
    room.events -= countOf(view, message);
    room.tokens -= view.tokensOf(message);
    if ((events !== undefined && room.events < 0) || (tokens !== undefined && room.tokens < 0)) break;
    start -= 1;
  }
  const part = between(view, first, Math.min(start, latest));
  if (!part) return undefined;
  const share =
    tokens === undefined ? part.eventIds.length / view.eventCount : part.tokens / view.promptTokens();
  return share < (target.progress ?? 0) ? undefined : part;
}

/**
 * All that is closed, the beginning and the newest answer too. Of the first and the latest message of the user those stay that take no more than that many
 * tokens.
 */
export function everything(view: View, mostTokens: number): Forgettable | undefined {
  const isSmall = (message: ModelMessage | undefined) =>
    message?.role === "user" && isRequest(view, message) && view.tokensOf(message) <= mostTokens;
  return between(view, isSmall(view.messages[0]) ? 1 : 0, view.closed, isSmall);
}

function between(
  view: View,
  first: number,
  wanted: number,
  stays: (message: ModelMessage) => boolean = (message) => isRequest(view, message),
): Forgettable | undefined {
  const { messages, closed } = view;
  const eventIds: string[] = [];
  const offset = messages.slice(0, first).reduce((sum, message) => sum + view.sources(message).length, 1);
  let [end, tokens, staying] = [first, 0, 0];
  // What is kept begins with no result of a call that is forgotten.
  while (end < closed && (end < wanted || messages[end]?.role === "tool")) {
    const message = messages[end]!;
    const sources = view.sources(message);
    if (eventIds.length + sources.length > mostEvents && message.role !== "tool") break;
    end += 1;
    if (stays(message)) staying += sources.length;
    else {
      eventIds.push(...sources);
      tokens += view.tokensOf(message);
    }
  }
  if (eventIds.length < 2) return undefined;
  return { messages: messages.slice(first, end), eventIds, offset: offset + staying, tokens };
}

/** The number of messages at the beginning that stay: that many events, and the user's first message, without half of an answer's calls. */
function endOfBeginning(view: View, keepFirst: number): number {
  const { messages, closed } = view;
  let end = messages.findIndex(({ role }) => role === "user") + 1;
  let events = messages.slice(0, end).reduce((sum, message) => sum + view.sources(message).length, 1);
  while (end < closed) {
    let unit = end + 1;
    while (messages[unit]?.role === "tool") unit += 1;
    const sources = messages.slice(end, unit).map((message) => view.sources(message).length);
    events += sources.reduce((sum, count) => sum + count, 0);
    // A summary ends it.
    if (events > keepFirst || sources.includes(0)) break;
    end = unit;
  }
  return Math.min(end, closed);
}

/** The first or the latest message of the user. */
function isRequest(view: View, message: ModelMessage): boolean {
  if (message.role !== "user") return false;
  const [id] = view.sources(message);
  return (
    id !== undefined && (id === view.words.firstRequest?.eventId || id === view.words.latestRequest?.eventId)
  );
}

function countOf(view: View, message: ModelMessage): number {
  return Math.max(1, view.sources(message).length);
}
