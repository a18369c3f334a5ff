import { type ExecutionStatus, executionStatuses } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { reportedStatus, type StatusCommand, transition } from "./status.ts";

const commands: Record<StatusCommand, string> = {
  message: "· · · · idle · idle",
  messageAndRun: "running running running running running running running",
  run: "running · running · · running running",
  approve: "· · · running+running · · ·",
  reject: "· · · idle · · ·",
  subAgentsAnswered: "· · · running · · ·",
  pause: "PauseEvent+paused PauseEvent+paused · · · · ·",
  interrupt: Array(7).fill("InterruptEvent+paused").join(" "),
  navigate: "· idle · idle idle idle idle",
  awaitApproval: Array(7).fill("waiting_for_confirmation").join(" "),
  finish: "finished finished finished finished finished finished finished",
  reopen: "· · · · running · ·",
  nothingToDo: "· idle · · · · ·",
  repetition: "stuck stuck stuck stuck stuck stuck stuck",
  fail: "error error error error error error error",
};
const statuses = executionStatuses.filter((status) => status !== "deleting");

const describe = (status: ExecutionStatus, command: StatusCommand) =>
  transition(status, command)
    .map(({ event }) => ("value" in event ? (event as { value: string }).value : event.kind))
    .join("+") || "·";

test.each(Object.entries(commands) as [StatusCommand, string][])(
  "%s changes each status as specified",
  (command, row) => {
    expect(statuses.map((status) => describe(status, command)).join(" ")).toBe(row);
  },
);

test("only user events are listed, and the status is a control record", () => {
  const records = [...transition("running", "pause"), ...transition("running", "interrupt")];
  expect(records.map(({ listed }) => listed)).toEqual([true, false, true, false]);
  expect(records.map(({ event }) => event.source)).toEqual(["user", "environment", "user", "environment"]);
});

test("a reported status is written only when it differs", () => {
  expect(reportedStatus("idle", "idle")).toEqual([]);
  expect(reportedStatus("idle", "error")).toMatchObject([{ listed: false, event: { value: "error" } }]);
});
