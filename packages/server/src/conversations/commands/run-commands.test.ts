import { stub } from "@sandpiper/core/test/support/stub";
import { expect, test } from "vitest";
import { RunCommands, type RunCommandsDeps } from "./run-commands.ts";

test("an interrupt ends a run that begins while the interrupt is stored", async () => {
  const aborts: string[] = [];
  let isAwake = false;
  const commands = new RunCommands(
    stub<RunCommandsDeps>({
      access: stub({ requireLocal: async () => stub({ summary: stub({ executionStatus: "running" }) }) }),
      runner: stub({
        isAwake: () => isAwake,
        leaveQueue() {},
        abort: async (_: string, cause: string) => void aborts.push(cause),
      }),
      // The run call's own append has ended meanwhile, and its run has begun.
      store: stub({
        events: stub({
          append: async () => {
            isAwake = true;
            return stub({});
          },
        }),
      }),
      announcements: stub({ announceEnd() {} }),
    }),
  );
  await commands.interrupt("a");
  expect(aborts).toEqual(["interrupt"]);
});
