import type { Event } from "@sandpiper/wire";
import { expect, test } from "vitest";
import {
  actionEvent,
  agentEvent,
  errorEvent,
  observationEvent,
  userEvent,
} from "../../test/support/events.ts";
import { selectPart } from "../condenser/select-part.ts";
import { View } from "./view.ts";

const roles = (view: View) => view.messages.map((message) => message.role);

test("calls of one answer become one assistant message with its results behind it", () => {
  const view = new View();
  for (const event of [
    userEvent("go"),
    actionEvent("c1", "ls", { response: "r1", thought: "look" }),
    actionEvent("c2", "pwd", { response: "r1" }),
    observationEvent("c1", "a"),
    observationEvent("c2", "/"),
  ]) {
    view.add(event);
  }
  expect(roles(view)).toEqual(["user", "assistant", "tool", "tool"]);
  expect(view.messages[1]).toMatchObject({ text: "look", toolCalls: [{ id: "c1" }, { id: "c2" }] });
});

test("a message that arrives before missing results is read after them", () => {
  const view = new View();
  for (const event of [
    userEvent("go"),
    actionEvent("c1", "make"),
    userEvent("wait"),
    observationEvent("c1", "done"),
    agentEvent("ok"),
  ]) {
    view.add(event);
  }
  expect(roles(view)).toEqual(["user", "assistant", "tool", "user", "assistant"]);
});

test("a second result of the same call is not shown to the model", () => {
  const view = new View();
  for (const event of [
    actionEvent("c1", "make"),
    errorEvent("c1", "interrupted"),
    observationEvent("c1", "late"),
  ])
    view.add(event);
  expect(roles(view)).toEqual(["assistant", "tool"]);
  expect(view.messages[1]).toMatchObject({ isError: true });
});

test("a message that arrives during a model call is read after the answer", () => {
  const view = new View();
  view.add(userEvent("first"));
  expect(view.startCall().map(({ role }) => role)).toEqual(["user"]);
  view.add(userEvent("second"));
  view.add(agentEvent("answer to the first"));
  expect(roles(view)).toEqual(["user", "assistant", "user"]);
});

test("a prompt never ends with an assistant message", () => {
  const view = new View();
  view.add(userEvent("first"));
  view.add(agentEvent("answer"));
  expect(view.startCall().at(-1)?.role).toBe("user");
});

test("the size of a prompt is estimated and corrected by the provider's count", () => {
  const view = new View();
  view.add(userEvent("x".repeat(3_500)));
  expect(view.promptTokens()).toBeGreaterThan(900);
  view.add(actionEvent("c1", "ls", { response: "r1" }));
  const usage = { response_id: "r1", per_turn_token: 2_000 };
  expect(view.promptTokens(usage)).toBe(2_000);
  view.add(observationEvent("c1", "y".repeat(3_500)));
  expect(view.promptTokens(usage)).toBeGreaterThan(2_900);
  expect(view.promptTokens(usage)).toBeLessThan(3_200);
  // Impossible counts are ignored, and so are counts of another answer.
  expect(view.promptTokens({ response_id: "r1", per_turn_token: 1e12 })).toBeLessThan(40_000);
  expect(view.promptTokens({ response_id: "r0", per_turn_token: 5 })).toBe(view.promptTokens());
});

test("the newest of many images stay, and a note replaces the others", () => {
  const view = new View();
  const url = "data:image/png;base64,iVBORw0KGgo=";
  view.add(userEvent("look"));
  for (let index = 0; index < 50; index++) {
    view.add(actionEvent(`c${index}`, "shot"));
    const event = observationEvent(`c${index}`, "seen") as Extract<Event, { kind: "ObservationEvent" }>;
    event.observation.content.push({ type: "image", image_urls: [url] });
    event.observation = { ...event.observation, kind: "ThinkObservation" } as typeof event.observation;
    view.add(event);
  }
  const images = view.messages.map((message) =>
    message.role === "tool" ? message.content.some(({ type }) => type === "image") : false,
  );
  const count = images.filter(Boolean).length;
  expect(count).toBeGreaterThanOrEqual(10);
  expect(count).toBeLessThanOrEqual(20);
  expect(images.at(-1)).toBe(true);
  expect(JSON.stringify(view.messages[2])).toContain("An image was here");
});

test("thoughts stay with their calls when earlier messages are condensed", () => {
  const view = new View();
  const calls = ["c1", "c2", "c3"].map((id) => ({
    ...(actionEvent(id, "ls") as Extract<Event, { kind: "ActionEvent" }>),
    thinking_blocks: [{ type: "thinking" as const, thinking: `thought of ${id}`, signature: "c2ln" }],
  }));
  view.add(userEvent("go"));
  for (const call of calls) {
    view.add(call);
    view.add(observationEvent(call.tool_call_id, "out"));
  }
  const part = selectPart(view, { keepFirst: 2, events: 5 })!;
  view.add({
    ...{
      kind: "Condensation",
      id: "s",
      timestamp: "2026-01-01T00:00:00.000000",
      source: "environment",
      llm_response_id: "s",
    },
    ...{ forgotten_event_ids: part.eventIds, summary: "SUMMARY", summary_offset: part.offset },
  } as Event);
  expect(roles(view)).toEqual(["user", "user", "assistant", "tool"]);
  expect(view.messages[2]).toMatchObject({
    thinkingBlocks: [{ thinking: "thought of c3", signature: "c2ln" }],
  });
});

test("a history without a condenser stays within limits, and its calls keep their results", () => {
  const view = new View();
  view.add(userEvent("the first words"));
  const output = "z".repeat(2_000);
  for (let index = 0; index < 30_000; index++) {
    view.add(actionEvent(`c${index}`, "ls"));
    view.add(observationEvent(`c${index}`, `${index} ${output}`));
  }
  expect(view.messages.length).toBeLessThanOrEqual(20_001);
  expect(view.messages[0]).toMatchObject({ content: [{ text: "the first words" }] });
  expect(JSON.stringify(view.messages[1])).toContain("left out");
  expect(view.messages[2]?.role).toBe("assistant");
  expect(view.messages.filter(({ role }) => role === "user")).toHaveLength(2);
});
