import { createHash } from "node:crypto";
import { type ActionEvent, contentText, type Event } from "@sandpiper/wire";
import { isStopFeedback } from "../hooks/hooks.ts";

/** Verdict of the stuck rules (agent-behaviour.md section 4). */
export type StuckVerdict = "fine" | "nudge" | "stuck";

/** Events that the contract's rules look at. */
const shortWindow = 20;

/** Different calls per round of a loop, and rounds to detect. */
const longestRound = 8;
const rounds = 3;

/** Events for the longest loop, each call with its result, plus some polls. */
export const stuckWindow = longestRound * rounds * 2 + 12;

/** Whether the rules look at an event; others do not fill the window. */
export function countsAsProgress({ kind }: Event): boolean {
  return results.has(kind) || kind === "MessageEvent" || kind === "ActionEvent";
}

const results = new Set<string>(["ObservationEvent", "AgentErrorEvent", "UserRejectObservation"]);

/** What the rules compare; `bare` ignores the thought. */
interface Call {
  action: string;
  bare: string;
  /** It may wait for something. */
  waits: boolean;
  /** Time passes while it runs. */
  takesTime: boolean;
  /** It only reads further output of a command. */
  polls: boolean;
}

type Pair = Call & { result: string; failed: boolean };

/** Commands that wait: their output may stay the same for long. */
const waits = /\b(?:sleep|wait|watch|timeout|until|while|tail)\b/;

/** Commands that let time pass; the others of `waits` also end commands that do not wait. */
const takesTime = /\b(?:sleep|wait|watch|until)\b|\btail +-\w*f\b/;

/**
 * Judges the events after the last user message, without ids and times. Stuck: the same action with
 * the same result 4 times, with an error more than 3 times, 3 agent messages in a row, or 6 results
 * of two alternating actions. Nudge: the same action with an error exactly 3 times. Beyond the
 * contract: three rounds of 3 actions; 8 times the same action and result, or three rounds of 4 to
 * 8 actions with the same results, unless one waits. Polls do not count.
 */
export function judgeStuck(events: readonly Event[]): StuckVerdict {
  const lastUser = events.findLastIndex((event) => event.kind === "MessageEvent" && event.source === "user");
  const all = events
    .slice(lastUser + 1)
    .filter(countsAsProgress)
    .slice(-stuckWindow);
  const recent = all.slice(-shortWindow);
  if (monologue(recent) >= 3) return "stuck";

  const pairs = pairUp(recent);
  const last = pairs.at(-1);
  if (!last) return "fine";
  const same = streak(pairs, (pair) => pair.action === last.action && pair.result === last.result);
  const errors = last.failed ? streak(pairs, (pair) => pair.failed && pair.action === last.action) : 0;
  if (errors > 3 || (!last.failed && same >= 4)) return "stuck";
  const keys = pairs.map(({ action, result }) => `${action} ${result}`);
  if (cycles(keys, 2) || cycles(keys, 3) || isLongLoop(pairUp(all))) return "stuck";
  const again = streak(pairs, (pair) => pair.bare === last.bare && pair.result === last.result);
  if (again >= 8 && !last.waits) return "stuck";
  return errors === 3 ? "nudge" : "fine";
}

/** Agent messages since its last action; platform nudges are skipped, stop-hook feedback is not. */
function monologue(events: readonly Event[]): number {
  const isOwn = (event: Event) =>
    event.kind === "MessageEvent" && event.source === "environment" && !isStopFeedback(getText(event));
  return streak(
    events.filter((event) => !isOwn(event)),
    (event) => event.kind === "MessageEvent" && event.source === "agent",
  );
}

function getText(event: Event): string {
  return event.kind === "MessageEvent" ? contentText(event.llm_message.content) : "";
}

function streak<T>(items: readonly T[], matches: (item: T) => boolean): number {
  const start = items.findLastIndex((item) => !matches(item));
  return items.length - 1 - start;
}

function pairUp(events: readonly Event[]): Pair[] {
  const calls = new Map<string, Call>();
  const pairs: Pair[] = [];
  for (const event of events) {
    if (event.kind === "ActionEvent") {
      calls.set(event.tool_call_id, toCall(event));
      continue;
    }
    const call = "tool_call_id" in event ? calls.get(event.tool_call_id as string) : undefined;
    const goesOn =
      event.kind === "ObservationEvent" &&
      event.observation.kind === "TerminalObservation" &&
      event.observation.exit_code === -1;
    if (call && !(call.polls && goesOn))
      pairs.push({ ...call, result: digestResult(event), failed: event.kind === "AgentErrorEvent" });
  }
  return pairs;
}

/** Cache: each step looks at many of the same events. */
const knownCalls = new WeakMap<Event, Call>();
const knownResults = new WeakMap<Event, string>();

function toCall(event: ActionEvent): Call {
  const known = knownCalls.get(event);
  if (known) return known;
  const { action, tool_name, thought, tool_call } = event;
  const text = JSON.stringify([tool_name, action ?? tool_call.arguments]);
  const bare = digest(text);
  const command = action?.kind === "TerminalAction" ? action.command : undefined;
  const call = {
    bare,
    action: digest(JSON.stringify([thought.map(({ text }) => text), bare])),
    waits: waits.test(text),
    takesTime: command !== undefined && takesTime.test(command),
    polls: command === "" && action?.kind === "TerminalAction" && !action.is_input,
  };
  knownCalls.set(event, call);
  return call;
}

function digestResult(event: Event): string {
  let key = knownResults.get(event);
  if (key === undefined) {
    if (event.kind === "ObservationEvent") key = digest(JSON.stringify(event.observation.content));
    else if (event.kind === "AgentErrorEvent") key = digest(event.error);
    else key = digest(event.kind === "UserRejectObservation" ? event.rejection_reason : "");
    knownResults.set(event, key);
  }
  return key;
}

function digest(text: string): string {
  return createHash("sha1").update(text).digest("base64");
}

/** Whether the last keys repeat the same `period` keys `rounds` times, and are not all equal. */
function cycles(keys: readonly string[], period: number): boolean {
  const last = keys.slice(-rounds * period);
  if (last.length < rounds * period || last.slice(1, period).every((key) => key === last[0])) return false;
  return last.every((key, index) => key === last[index % period]);
}

function isLongLoop(pairs: readonly Pair[]): boolean {
  const keys = pairs.map(({ bare, result }) => `${bare} ${result}`);
  for (let period = 4; period <= longestRound; period++)
    if (cycles(keys, period)) return !pairs.slice(-period).some(({ takesTime }) => takesTime);
  return false;
}
