import type { Event } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { actionEvent, observationEvent, userEvent } from "../../test/support/events.ts";
import { hookContext } from "../hooks/hooks.ts";
import { View } from "../prompt/view.ts";
import { appendPinned } from "./condense.ts";
import { selectAll, selectPart } from "./select-part.ts";

type Observed = Extract<Event, { kind: "ObservationEvent" }>;

/** A call whose result brings texts along. */
const call = (id: string, ...texts: string[]): Event[] => [
  actionEvent(id, "ls"),
  {
    ...(observationEvent(id, "out") as Observed),
    ...(texts.length > 0 && { extended_content: texts.map(textContent) }),
  },
];

function viewOf(...events: Event[]): View {
  const view = new View();
  for (const event of events) view.add(event);
  return view;
}

test("rules and invoked skills of condensed results follow the summary once; remaining ones and hook context do not", () => {
  const rule = '<PATH_RULE name="ts" path="/a.ts">\nNo any.\n</PATH_RULE>';
  const skill = observationEvent("c2", "The skill's text.") as Observed;
  skill.observation = {
    ...skill.observation,
    kind: "InvokeSkillObservation",
    skill_name: "x",
  } as Observed["observation"];
  const view = viewOf(
    userEvent("go"),
    ...call("c1", rule, hookContext("for the moment")),
    actionEvent("c2", "skill"),
    skill,
    ...call("c3", rule),
    ...call("c4", '<PATH_RULE name="md" path="/a.md">\nShort.\n</PATH_RULE>'),
  );
  const part = selectPart(view, { keepFirst: 2, events: 6 })!;
  const text = appendPinned("SUMMARY", view, part, 10_000);
  expect(text).toBe(`SUMMARY\n\nThe skill's text.\n\n${rule}`);
});

test("when the whole history is condensed, long user messages keep their start and end", () => {
  const view = viewOf(
    userEvent(`first ${"x".repeat(50_000)} end`),
    ...call("c1"),
    userEvent("short"),
    ...call("c2"),
    ...call("c3"),
  );
  const part = selectAll(view, 1_000)!;
  const text = appendPinned("SUMMARY", view, part, 2_000);
  expect(text).toMatch(
    /^SUMMARY\n\nThe first message of the user:\nfirst x+\n\[\.\.\. \d+ characters left out here \.\.\.\]\nx+ end$/,
  );
  expect(text.length).toBeLessThan(2_200);
  view.add({
    ...{
      kind: "Condensation",
      id: "s",
      timestamp: "2026-01-01T00:00:00.000000",
      source: "environment",
      llm_response_id: "s",
    },
    ...{ forgotten_event_ids: part.eventIds, summary: text, summary_offset: part.offset },
  } as Event);
  expect(view.messages).toHaveLength(2);
  expect(JSON.stringify(view.messages)).toContain('"short"');
});

test("pinned skills are repeated while they fit, newest first", () => {
  const calls = Array.from({ length: 200 }, (_, index) =>
    call(`c${index}`, `skill ${index} ${"y".repeat(1_000)}`),
  ).flat();
  const view = viewOf(userEvent("go"), ...calls, ...call("last"));
  const text = appendPinned("SUMMARY", view, selectPart(view, { keepFirst: 2, events: 5 })!, 32_000);
  expect(text.length).toBeLessThan(25_000);
  expect(text).toContain("skill 199 ");
  expect(text).not.toContain("skill 100 ");
});
