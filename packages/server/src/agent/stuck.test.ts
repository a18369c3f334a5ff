import type { Event } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { actionEvent, agentEvent, errorEvent, observationEvent, userEvent } from "../../test/support/events.ts";
import { judgeStuck } from "./stuck.ts";

const repeat = (times: number, make: (index: number) => Event[]) =>
  Array.from({ length: times }, (_, index) => make(index)).flat();
const same = (times: number) => repeat(times, (i) => [actionEvent(`c${i}`, "ls"), observationEvent(`c${i}`, "a")]);
const failing = (times: number) => repeat(times, (i) => [actionEvent(`c${i}`, "ls"), errorEvent(`c${i}`, "bad")]);

test("the same action with the same result is stuck the fourth time", () => {
  expect(judgeStuck([userEvent("go"), ...same(3)])).toBe("fine");
  expect(judgeStuck([userEvent("go"), ...same(4)])).toBe("stuck");
});

test("the same action with another result goes on", () => {
  const events = repeat(6, (i) => [actionEvent(`c${i}`, "date"), observationEvent(`c${i}`, `time ${i}`)]);
  expect(judgeStuck(events)).toBe("fine");
});

test("a failing call is nudged the third time and stuck after that", () => {
  expect(judgeStuck(failing(2))).toBe("fine");
  expect(judgeStuck(failing(3))).toBe("nudge");
  expect(judgeStuck(failing(4))).toBe("stuck");
});

test("three agent messages in a row are a monologue", () => {
  expect(judgeStuck([userEvent("go"), agentEvent("a"), agentEvent("b")])).toBe("fine");
  expect(judgeStuck([userEvent("go"), agentEvent("a"), agentEvent("b"), agentEvent("c")])).toBe("stuck");
});

test("two actions in turn are stuck after six results", () => {
  const turn = (i: number) => {
    const name = i % 2 === 0 ? "cat a" : "cat b";
    return [actionEvent(`c${i}`, name), observationEvent(`c${i}`, name)];
  };
  expect(judgeStuck(repeat(5, turn))).toBe("fine");
  expect(judgeStuck(repeat(6, turn))).toBe("stuck");
});

test("a new user message starts the count again", () => {
  expect(judgeStuck([...same(4), userEvent("try again"), ...same(2)])).toBe("fine");
});
