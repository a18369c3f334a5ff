import { stub } from "@sandpiper/core/test/support/stub";
import type { Event } from "@sandpiper/wire";
import { expect, test } from "vitest";
import {
  actionEvent,
  agentEvent,
  errorEvent,
  observationEvent,
  userEvent,
} from "../../test/support/events.ts";
import { judgeStuck } from "./stuck.ts";

const repeat = (times: number, make: (index: number) => Event[]) =>
  Array.from({ length: times }, (_, index) => make(index)).flat();
const same = (times: number) =>
  repeat(times, (i) => [actionEvent(`c${i}`, "ls"), observationEvent(`c${i}`, "a")]);
const failing = (times: number) =>
  repeat(times, (i) => [actionEvent(`c${i}`, "ls"), errorEvent(`c${i}`, "bad")]);

test("the same action with the same result is stuck the fourth time", () => {
  expect(judgeStuck([userEvent("go"), ...same(3)])).toBe("fine");
  expect(judgeStuck([userEvent("go"), ...same(4)])).toBe("stuck");
});

test("the same action with another result is not stuck", () => {
  const events = repeat(6, (i) => [actionEvent(`c${i}`, "date"), observationEvent(`c${i}`, `time ${i}`)]);
  expect(judgeStuck(events)).toBe("fine");
});

test("a failing call causes a nudge the third time and is stuck afterwards", () => {
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

test("nudged empty answers are a monologue, feedback of stop hooks is not", () => {
  const asked = (text: string) =>
    repeat(3, () => [agentEvent(""), { ...userEvent(text), source: "environment" } as Event]);
  expect(judgeStuck([userEvent("go"), ...asked("Your last answer was empty.").slice(0, 4)])).toBe("fine");
  expect(judgeStuck([userEvent("go"), ...asked("Your last answer was empty.")])).toBe("stuck");
  expect(judgeStuck([userEvent("go"), ...asked("[Stop hook feedback] Run the tests.")])).toBe("fine");
});

test("a call that is refused again and again is stuck", () => {
  const refused = (i: number) =>
    ({ ...errorEvent(`c${i}`, ""), kind: "UserRejectObservation", rejection_reason: "No." }) as Event;
  const events = repeat(4, (i) => [actionEvent(`c${i}`, "rm -rf /"), refused(i)]);
  expect(judgeStuck(events.slice(0, 6))).toBe("fine");
  expect(judgeStuck(events)).toBe("stuck");
});

test("hook events between calls do not hide a loop", () => {
  const hook = stub<Event>({ kind: "HookExecutionEvent", id: "h", timestamp: "", source: "hook" });
  const events = repeat(6, (i) => [
    actionEvent(`c${i}`, i % 2 === 0 ? "cat a" : "cat b"),
    hook,
    hook,
    hook,
    observationEvent(`c${i}`, i % 2 === 0 ? "a" : "b"),
  ]);
  expect(judgeStuck(events)).toBe("stuck");
});

test("three actions in turn are stuck after three rounds", () => {
  const turn = (i: number) => {
    const name = ["cat a", "cat b", "cat c"][i % 3]!;
    return [actionEvent(`c${i}`, name), observationEvent(`c${i}`, name)];
  };
  expect(judgeStuck(repeat(8, turn))).toBe("fine");
  expect(judgeStuck(repeat(9, turn))).toBe("stuck");
  expect(
    judgeStuck(
      repeat(9, (i) => [actionEvent(`c${i}`, "ls"), observationEvent(`c${i}`, `${i % 3 === 0 ? i : 0}`)]),
    ),
  ).toBe("fine");
});

const inTurn =
  (names: readonly string[], output: (i: number) => string, thought?: (i: number) => string) =>
  (i: number) => {
    const command = names[i % names.length]!;
    return [
      actionEvent(`c${i}`, command, thought && { thought: thought(i) }),
      observationEvent(`c${i}`, `${command}: ${output(i)}`),
    ];
  };
const commands = (count: number) => Array.from({ length: count }, (_, i) => `cat ${i}`);

test.each([4, 5, 6, 7, 8])(
  "%i actions in turn are stuck after three rounds, whatever is thought",
  (count) => {
    const calls = inTurn(
      commands(count),
      () => "same",
      (i) => `thought ${i}`,
    );
    expect(judgeStuck(repeat(3 * count - 1, calls))).toBe("fine");
    expect(judgeStuck(repeat(3 * count, calls))).toBe("stuck");
    expect(judgeStuck([userEvent("go"), ...repeat(3 * count + 2, calls)])).toBe("stuck");
    expect(judgeStuck([...repeat(2 * count, calls), userEvent("go on"), ...repeat(count, calls)])).toBe(
      "fine",
    );
  },
);

test("rounds with new results or waiting commands are not a loop", () => {
  const changing = inTurn(commands(5), (i) => (i % 5 === 3 ? `${i}` : "same"));
  expect(judgeStuck(repeat(25, changing))).toBe("fine");
  const edited = (i: number) => inTurn(i % 5 === 0 ? [`sed -i s/a/${i}/ a`] : commands(5), () => "same")(i);
  expect(judgeStuck(repeat(25, edited))).toBe("fine");
  const waiting = inTurn(["sleep 20", "curl a", "curl b", "curl c", "curl d"], () => "pending");
  expect(judgeStuck(repeat(25, waiting))).toBe("fine");
  const cut = inTurn(["npm test 2>&1 | tail -n 20", ...commands(4)], () => "same");
  expect(judgeStuck(repeat(15, cut))).toBe("stuck");
});

test("long results do not slow the steps", () => {
  const long = "x".repeat(1_000_000);
  const events = repeat(
    30,
    inTurn(commands(30), () => long),
  );
  judgeStuck(events);
  const from = performance.now();
  for (let i = 0; i < 20; i++) judgeStuck(events);
  expect(performance.now() - from).toBeLessThan(5_000);
});

test("different thoughts hide a loop only for a while, unless the command waits", () => {
  const thinking = (command: string) => (i: number) => [
    actionEvent(`c${i}`, command, { thought: `thought ${i}` }),
    observationEvent(`c${i}`, "same"),
  ];
  expect(judgeStuck(repeat(7, thinking("npm test")))).toBe("fine");
  expect(judgeStuck(repeat(8, thinking("npm test")))).toBe("stuck");
  expect(judgeStuck(repeat(10, thinking("sleep 30; curl -s localhost/ready")))).toBe("fine");
});

test("polls of a running command are not a loop and do not hide one", () => {
  const running = (id: string): Event => {
    const event = observationEvent(id, "") as Extract<Event, { kind: "ObservationEvent" }>;
    return { ...event, observation: { ...event.observation, exit_code: -1 } as typeof event.observation };
  };
  expect(
    judgeStuck([
      actionEvent("a", "make"),
      running("a"),
      ...repeat(9, (i) => [actionEvent(`c${i}`, ""), running(`c${i}`)]),
    ]),
  ).toBe("fine");
  const polled = (i: number) => [
    actionEvent(`c${i}`, "npm test"),
    observationEvent(`c${i}`, "a"),
    actionEvent(`p${i}`, ""),
    running(`p${i}`),
  ];
  expect(judgeStuck(repeat(3, polled))).toBe("fine");
  expect(judgeStuck(repeat(4, polled))).toBe("stuck");
});
