import { expect, test } from "vitest";
import { actionEvent, agentEvent, errorEvent, observationEvent, userEvent } from "../../test/support/events.ts";
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

test("a message that comes while a result is missing is read after the results", () => {
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
  for (const event of [actionEvent("c1", "make"), errorEvent("c1", "interrupted"), observationEvent("c1", "late")])
    view.add(event);
  expect(roles(view)).toEqual(["assistant", "tool"]);
  expect(view.messages[1]).toMatchObject({ isError: true });
});

test("a message that comes while the model is called is read after the answer", () => {
  const view = new View();
  view.add(userEvent("first"));
  expect(view.startCall().map(({ role }) => role)).toEqual(["user"]);
  view.add(userEvent("second"));
  view.add(agentEvent("answer to the first"));
  expect(roles(view)).toEqual(["user", "assistant", "user"]);
});

test("a prompt never ends in the agent's own words", () => {
  const view = new View();
  view.add(userEvent("first"));
  view.add(agentEvent("answer"));
  expect(view.startCall().at(-1)?.role).toBe("user");
});
