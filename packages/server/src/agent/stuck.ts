import { contentText, type Event } from "@sandpiper/wire";
import { isStopFeedback } from "./hooks/hooks.ts";

/** What the stuck rules say of a run (agent-behaviour.md section 4). */
export type StuckVerdict = "fine" | "nudge" | "stuck";

/** How many events the rules look back at most. */
export const stuckWindow = 20;

/** Whether the rules look at an event; others, such as those of hooks, do not fill their window. */
export function countsAsProgress({ kind }: Event): boolean {
  return results.has(kind) || kind === "MessageEvent" || kind === "ActionEvent";
}

const results: ReadonlySet<Event["kind"]> = new Set(["ObservationEvent", "AgentErrorEvent", "UserRejectObservation"]);

/** A call and what came of it. `bare` is the call without the thought before it. */
type Pair = { action: string; bare: string; result: string; failed: boolean };

/** Commands that wait for something: what they show may stay the same for long. */
const waits = /\b(?:sleep|wait|watch|timeout|until|while|tail)\b/;

/**
 * Judges the events after the last user message; ids and times do not count.
 * Stuck: the same action with the same result 4 times, more than 3 times the same action with an error, 3 agent messages in a row,
 * or 6 results of two actions in turn. Nudge: exactly 3 times the same action with an error. Beyond the contract: three actions in turn, three times over; and the same
 * action with the same result 8 times, whatever the model thinks meanwhile, unless it waits. Polls of a command that goes on do not count.
 */
export function judgeStuck(events: readonly Event[]): StuckVerdict {
  const lastUser = events.findLastIndex((event) => event.kind === "MessageEvent" && event.source === "user");
  const recent = events
    .slice(lastUser + 1)
    .filter(countsAsProgress)
    .slice(-stuckWindow);
  if (monologue(recent) >= 3) return "stuck";

  const pairs = pairUp(recent);
  const last = pairs.at(-1);
  if (!last) return "fine";
  const same = streak(pairs, (pair) => pair.action === last.action && pair.result === last.result);
  const errors = last.failed ? streak(pairs, (pair) => pair.failed && pair.action === last.action) : 0;
  if (errors > 3 || (!last.failed && same >= 4)) return "stuck";
  if (cycles(pairs, 2, 6) || cycles(pairs, 3, 9)) return "stuck";
  const again = streak(pairs, (pair) => pair.bare === last.bare && pair.result === last.result);
  if (again >= 8 && !waits.test(last.bare)) return "stuck";
  return errors === 3 ? "nudge" : "fine";
}

/** Messages of the agent since it last did something. The platform's own between them, which ask it to go on, do not count; those of Stop hooks say something new. */
function monologue(events: readonly Event[]): number {
  const isOwn = (event: Event) =>
    event.kind === "MessageEvent" && event.source === "environment" && !isStopFeedback(textOf(event));
  return streak(
    events.filter((event) => !isOwn(event)),
    (event) => event.kind === "MessageEvent" && event.source === "agent",
  );
}

function textOf(event: Event): string {
  return event.kind === "MessageEvent" ? contentText(event.llm_message.content) : "";
}

function streak<T>(items: readonly T[], matches: (item: T) => boolean): number {
  const start = items.findLastIndex((item) => !matches(item));
  return items.length - 1 - start;
}

function pairUp(events: readonly Event[]): Pair[] {
  const actions = new Map<string, Pick<Pair, "action" | "bare"> & { polls: boolean }>();
  const pairs: Pair[] = [];
  const add = (callId: string, result: string, failed: boolean, goesOn = false) => {
    const call = actions.get(callId);
    if (call && !(call.polls && goesOn)) pairs.push({ action: call.action, bare: call.bare, result, failed });
  };
  for (const event of events) {
    if (event.kind === "ActionEvent") {
      const { action, tool_name, thought, tool_call } = event;
      const bare = JSON.stringify([tool_name, action ?? tool_call.arguments]);
      const polls = action?.kind === "TerminalAction" && action.command === "" && !action.is_input;
      actions.set(event.tool_call_id, { action: JSON.stringify([thought.map(({ text }) => text), bare]), bare, polls });
    } else if (event.kind === "ObservationEvent") {
      const { observation } = event;
      const goesOn = observation.kind === "TerminalObservation" && observation.exit_code === -1;
      add(event.tool_call_id, JSON.stringify(observation.content), false, goesOn);
    } else if (event.kind === "AgentErrorEvent") {
      add(event.tool_call_id, event.error, true);
    } else if (event.kind === "UserRejectObservation") {
      add(event.tool_call_id, event.rejection_reason, false);
    }
  }
  return pairs;
}

/** Whether the last `length` pairs repeat the first `period` of them, which are not all the same. */
function cycles(pairs: readonly Pair[], period: number, length: number): boolean {
  const keys = pairs.slice(-length).map(({ action, result }) => `${action}\n${result}`);
  if (keys.length < length || keys.slice(1, period).every((key) => key === keys[0])) return false;
  return keys.every((key, index) => key === keys[index % period]);
}
