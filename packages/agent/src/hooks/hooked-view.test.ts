import type { HookExecutionEvent, MessageEvent } from "@sandpiper/wire";
import { contentText, newId } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { actionEvent, observationEvent, userEvent } from "../../test/support/events.ts";
import { View } from "../prompt/view.ts";

const hook = (
  type: HookExecutionEvent["hook_event_type"],
  more: Partial<HookExecutionEvent>,
): HookExecutionEvent => ({
  ...{ kind: "HookExecutionEvent", id: newId(), timestamp: "2026-01-01T00:00:00.000000", source: "hook" },
  ...{
    hook_event_type: type,
    hook_command: "x",
    success: true,
    blocked: false,
    exit_code: 0,
    stdout: "",
    stderr: "",
    ...more,
  },
});
const texts = (view: View) =>
  view.startCall().map((message) => (message.role === "assistant" ? "" : contentText(message.content)));

test("a blocked message is not read, pinned or counted, even while it waits for a result", () => {
  const view = new View();
  const [asked, bad] = [userEvent("go") as MessageEvent, userEvent("bad") as MessageEvent];
  for (const event of [asked, actionEvent("c1", "ls")]) view.add(event);
  const before = [view.eventCount, view.promptTokens()];
  view.add(bad);
  view.add(hook("UserPromptSubmit", { message_id: bad.id, blocked: true, reason: "no" }));
  expect([view.eventCount, view.promptTokens()]).toEqual(before);
  view.add(observationEvent("c1", "files"));
  expect(texts(view).join()).not.toContain("bad");
  expect(view.pinned.latestRequest?.eventId).toBe(asked.id);
});

test("messages that are blocked together are all forgotten", () => {
  const view = new View();
  const [asked, ...bad] = [userEvent("go"), userEvent("bad"), userEvent("worse")] as MessageEvent[];
  for (const event of [actionEvent("c1", "ls"), asked!, ...bad]) view.add(event);
  for (const { id } of bad)
    view.add(hook("UserPromptSubmit", { message_id: id, blocked: true, reason: "no" }));
  expect(view.pinned.latestRequest?.eventId).toBe(asked!.id);
});

test("hook context is read with the message, and session-start context as a message of its own", () => {
  const view = new View();
  const asked = userEvent("go") as MessageEvent;
  for (const event of [
    asked,
    hook("SessionStart", { additional_context: "Be quick." }),
    hook("UserPromptSubmit", { message_id: asked.id, additional_context: "It is Friday." }),
    hook("PostToolUse", { additional_context: "It stands with the result." }),
  ])
    view.add(event);
  expect(texts(view)).toEqual([
    "go\n<HOOK_CONTEXT>\nIt is Friday.\n</HOOK_CONTEXT>",
    "<HOOK_CONTEXT>\nBe quick.\n</HOOK_CONTEXT>",
  ]);
});
