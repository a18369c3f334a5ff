import type { ModelMessage } from "@sandpiper/models/model";
import type { Event } from "@sandpiper/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  actionEvent,
  agentEvent,
  errorEvent,
  observationEvent,
  userEvent,
} from "../../test/support/events.ts";
import { View } from "../prompt/view.ts";
import { type CondensablePart, selectAll, selectPart } from "./select-part.ts";

let count = 0;

/**
 * What may come next in a log: messages of both sides, calls side by side with results in any
 * order, calls without a result.
 */
const turn = fc.oneof(
  fc.constant("user" as const),
  fc.constant("agent" as const),
  fc.record({
    calls: fc.integer({ min: 1, max: 4 }),
    backwards: fc.boolean(),
    open: fc.boolean(),
    meanwhile: fc.boolean(),
  }),
);

/** A run closes open calls before it continues, so only the last call may have no result. */
function eventsOf(
  turns: (typeof turn extends fc.Arbitrary<infer T> ? T : never)[],
  isLast: boolean,
): Event[] {
  return turns.flatMap((next, position) => {
    if (next === "user") return [userEvent(`message ${++count}`)];
    if (next === "agent") return [agentEvent(`answer ${++count}`)];
    const ids = Array.from({ length: next.calls }, () => `call_${++count}`);
    const results = ids.map((id, index) =>
      index % 2 ? errorEvent(id, "failed") : observationEvent(id, `output ${id}`),
    );
    const left = next.open && isLast && position === turns.length - 1 ? results.slice(1) : results;
    return [
      ...ids.map((id) => actionEvent(id, "ls", { response: `r-${ids[0]}` })),
      ...(next.meanwhile ? [userEvent(`meanwhile ${++count}`)] : []),
      ...(next.backwards ? left.toReversed() : left),
    ];
  });
}

const condensation = (part: CondensablePart): Event => ({
  kind: "Condensation",
  id: `condensation-${++count}`,
  timestamp: "2026-01-01T00:00:00.000000",
  source: "environment",
  forgotten_event_ids: part.eventIds,
  summary: "THE SUMMARY",
  summary_offset: part.offset,
  llm_response_id: "s",
});

function viewOf(events: readonly Event[]): View {
  const view = new View();
  for (const event of events) view.add(event);
  return view;
}

/** Calls and results of a prompt pair up: providers accept nothing else. */
function orphans(messages: readonly ModelMessage[]): string[] {
  const open = new Set<string>();
  const wrong: string[] = [];
  for (const message of messages) {
    if (message.role === "assistant") for (const { id } of message.toolCalls) open.add(id);
    if (message.role === "tool" && !open.delete(message.toolCallId)) wrong.push(message.toolCallId);
  }
  return [...wrong, ...open];
}

const targets = fc.record({
  keepFirst: fc.integer({ min: 0, max: 8 }),
  events: fc.option(fc.integer({ min: 1, max: 40 }), { nil: undefined }),
  tokens: fc.option(fc.integer({ min: 1, max: 600 }), { nil: undefined }),
});

test("any condensation keeps calls with their results and the user's first and latest message, also after a reload", () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(turn, { maxLength: 12 }), { minLength: 1, maxLength: 4 }),
      targets,
      fc.boolean(),
      (parts, target, all) => {
        const log: Event[] = [];
        const view = new View();
        const add = (event: Event) => {
          log.push(event);
          view.add(event);
        };
        for (const [index, turns] of parts.entries()) {
          for (const event of eventsOf(turns, index === parts.length - 1)) add(event);
          const openBefore = orphans(view.messages);
          const before = view.eventCount;
          const part = all ? selectAll(view, 1_000) : selectPart(view, target);
          if (!part) continue;
          add(condensation(part));
          expect(orphans(view.messages)).toEqual(openBefore);
          expect(view.eventCount).toBeLessThanOrEqual(before);
          const said = view.messages.flatMap((message) => view.sources(message));
          for (const request of [view.pinned.firstRequest, view.pinned.latestRequest]) {
            const isWaiting = view.complete().length !== view.closed;
            if (request && !isWaiting) expect(said).toContain(request.eventId);
          }
          expect(view.messages.filter((message) => view.sources(message).length === 0)).toHaveLength(1);
        }
        const again = viewOf(log);
        expect(again.messages).toEqual(view.messages);
        expect([again.eventCount, again.promptTokens()]).toEqual([view.eventCount, view.promptTokens()]);
      },
    ),
    { numRuns: 300 },
  );
});

test("the middle is condensed: the beginning stays, and the newest events up to half of the limit", () => {
  const calls = Array.from({ length: 20 }, (_, index) => [
    actionEvent(`c${index}`, "ls"),
    observationEvent(`c${index}`, "x"),
  ]);
  const view = viewOf([userEvent("go"), ...calls.flat()]);
  const part = selectPart(view, { keepFirst: 4, events: 16 })!;
  // The beginning is the prompt, the message and the first call with its result; behind it come the
  // summary and five calls.
  expect(part.offset).toBe(4);
  expect(part.eventIds).toHaveLength(28);
});

test("a summary that frees too little is not made", () => {
  const calls = Array.from({ length: 20 }, (_, index) => [
    actionEvent(`c${index}`, "ls"),
    observationEvent(`c${index}`, "x"),
  ]);
  const view = viewOf([userEvent("go"), ...calls.flat()]);
  expect(selectPart(view, { keepFirst: 2, events: 39, progress: 0.1 })).toBeUndefined();
  expect(selectPart(view, { keepFirst: 2, events: 30, progress: 0.1 })).toBeDefined();
  expect(selectPart(viewOf([userEvent("go")]), { keepFirst: 2 })).toBeUndefined();
});

test("one summary stands for ten thousand events at most, so that its event stays small", () => {
  const calls = Array.from({ length: 9_000 }, (_, index) => [
    actionEvent(`c${index}`, "ls"),
    observationEvent(`c${index}`, "x"),
  ]);
  const view = viewOf([userEvent("go"), ...calls.flat()]);
  expect(selectPart(view, { keepFirst: 2, events: 100 })?.eventIds).toHaveLength(10_000);
  expect(selectAll(view, 100)?.eventIds).toHaveLength(10_000);
});
