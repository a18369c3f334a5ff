import type { ModelMessage } from "@sandpiper/models/model";
import type { View } from "../prompt/view.ts";

/** A part of the history that a summary can replace. */
export interface CondensablePart {
  /** Input of the summary: the forgotten messages and the kept user messages among them. */
  messages: ModelMessage[];
  eventIds: string[];
  /** Number of events of the view before the summary; the system prompt is the first. */
  offset: number;
  /** Estimated tokens that are freed. */
  tokens: number;
}

export interface CondensationTarget {
  /** First events to keep, system prompt included; the first user message always stays. */
  keepFirst: number;
  /** Total events. Default: half of the messages. */
  events?: number | undefined;
  /** Total tokens, estimated. */
  tokens?: number | undefined;
  /** Least share of the events (or tokens, if given) that must go. */
  progress?: number | undefined;
}

/** Events per summary: longer histories are condensed piece by piece. */
const maxEvents = 10_000;

/**
 * The part of the history to condense so that the target is met (agent-behaviour.md section 6).
 * Keeps calls with their results, open calls, the newest answer and the latest user message.
 * Undefined when a summary is not worthwhile.
 */
export function selectPart(view: View, target: CondensationTarget): CondensablePart | undefined {
  const { messages, closed } = view;
  const first = findBeginningEnd(view, target.keepFirst);
  // The newest answer and its results may not have been used yet.
  let latest = closed - 1;
  while (latest > first && messages[latest]?.role === "tool") latest -= 1;
  const beginning = messages
    .slice(0, first)
    .reduce((sum, message) => sum + view.tokensOf(message), view.systemTokens);
  const head = messages.slice(0, first).reduce((sum, message) => sum + countEvents(view, message), 1);
  const { events, tokens } = target;
  // The summary takes one place.
  const room = { events: (events ?? 0) - head - 1, tokens: (tokens ?? 0) - beginning };
  let start = messages.length;
  const least =
    events === undefined && tokens === undefined ? first + Math.ceil((messages.length - first) / 2) : first;
  while (start > least) {
    const message = messages[start - 1]!;
    room.events -= countEvents(view, message);
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

/** All closed messages, but the first and latest user message if they are small enough. */
export function selectAll(view: View, mostTokens: number): CondensablePart | undefined {
  const isSmall = (message: ModelMessage | undefined) =>
    message?.role === "user" && isRequest(view, message) && view.tokensOf(message) <= mostTokens;
  return between(view, isSmall(view.messages[0]) ? 1 : 0, view.closed, isSmall);
}

function between(
  view: View,
  first: number,
  wanted: number,
  stays: (message: ModelMessage) => boolean = (message) => isRequest(view, message),
): CondensablePart | undefined {
  const { messages, closed } = view;
  const eventIds: string[] = [];
  const offset = messages.slice(0, first).reduce((sum, message) => sum + view.sources(message).length, 1);
  let [end, tokens, staying] = [first, 0, 0];
  // The kept part must not begin with the result of a forgotten call.
  while (end < closed && (end < wanted || messages[end]?.role === "tool")) {
    const message = messages[end]!;
    const sources = view.sources(message);
    if (eventIds.length + sources.length > maxEvents && message.role !== "tool") break;
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

/** Leading messages that stay: `keepFirst` events and the first user message. */
function findBeginningEnd(view: View, keepFirst: number): number {
  const { messages, closed } = view;
  let end = messages.findIndex(({ role }) => role === "user") + 1;
  let events = messages.slice(0, end).reduce((sum, message) => sum + view.sources(message).length, 1);
  while (end < closed) {
    let unit = end + 1;
    while (messages[unit]?.role === "tool") unit += 1;
    const sources = messages.slice(end, unit).map((message) => view.sources(message).length);
    events += sources.reduce((sum, count) => sum + count, 0);
    // A summary ends the beginning.
    if (events > keepFirst || sources.includes(0)) break;
    end = unit;
  }
  return Math.min(end, closed);
}

function isRequest(view: View, message: ModelMessage): boolean {
  if (message.role !== "user") return false;
  const [id] = view.sources(message);
  const { firstRequest, latestRequest } = view.pinned;
  return id !== undefined && (id === firstRequest?.eventId || id === latestRequest?.eventId);
}

function countEvents(view: View, message: ModelMessage): number {
  return Math.max(1, view.sources(message).length);
}
