import type { Event } from "@sandpiper/wire";

/** What the stuck rules say of a run (agent-behaviour.md section 4). */
export type StuckVerdict = "fine" | "nudge" | "stuck";

/** How many events the rules look back at most. */
export const stuckWindow = 20;

type Pair = { action: string; result: string; failed: boolean };

/**
 * Judges the events after the last user message; ids and times do not count.
 * Stuck: the same action with the same result 4 times, more than 3 times the same action with an error, 3 agent messages in a row,
 * or 6 results of two actions in turn. Nudge: exactly 3 times the same action with an error.
 */
export function judgeStuck(events: readonly Event[]): StuckVerdict {
  const lastUser = events.findLastIndex((event) => event.kind === "MessageEvent" && event.source === "user");
  const recent = events.slice(lastUser + 1).slice(-stuckWindow);
  if (monologue(recent) >= 3) return "stuck";

  const pairs = pairUp(recent);
  const last = pairs.at(-1);
  if (!last) return "fine";
  const same = streak(pairs, (pair) => pair.action === last.action && pair.result === last.result);
  const errors = last.failed ? streak(pairs, (pair) => pair.failed && pair.action === last.action) : 0;
  if (errors > 3 || (!last.failed && same >= 4)) return "stuck";
  if (alternating(pairs)) return "stuck";
  return errors === 3 ? "nudge" : "fine";
}

function monologue(events: readonly Event[]): number {
  return streak(events, (event) => event.kind === "MessageEvent" && event.source === "agent");
}

function streak<T>(items: readonly T[], matches: (item: T) => boolean): number {
  const start = items.findLastIndex((item) => !matches(item));
  return items.length - 1 - start;
}

function pairUp(events: readonly Event[]): Pair[] {
  const actions = new Map<string, string>();
  const pairs: Pair[] = [];
  for (const event of events) {
    if (event.kind === "ActionEvent") {
      actions.set(
        event.tool_call_id,
        JSON.stringify([event.tool_name, event.thought.map((part) => part.text), event.action ?? event.tool_call.arguments]),
      );
    } else if (event.kind === "ObservationEvent") {
      const action = actions.get(event.tool_call_id);
      if (action) pairs.push({ action, result: JSON.stringify(event.observation.content), failed: false });
    } else if (event.kind === "AgentErrorEvent") {
      const action = actions.get(event.tool_call_id);
      if (action) pairs.push({ action, result: event.error, failed: true });
    }
  }
  return pairs;
}

function alternating(pairs: readonly Pair[]): boolean {
  const tail = pairs.slice(-6);
  if (tail.length < 6) return false;
  const key = (pair: Pair) => `${pair.action}\n${pair.result}`;
  const [even, odd] = [tail[0]!, tail[1]!];
  return key(even) !== key(odd) && tail.every((pair, index) => key(pair) === key(index % 2 === 0 ? even : odd));
}
