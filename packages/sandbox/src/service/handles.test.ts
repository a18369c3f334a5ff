import { PlatformError } from "@sandpiper/core/errors";
import { stub } from "@sandpiper/core/test/support/stub";
import { expect, test } from "vitest";
import type { SandboxDriver, SandboxProcess } from "../driver.ts";
import type { SandboxRow } from "../sandbox-store.ts";
import { SandboxHandles } from "./handles.ts";
import { newRuntimeState } from "./runtime-state.ts";

const row = stub<SandboxRow>({ id: "s", userId: "me", status: "RUNNING", incarnation: "1", lastUsedAt: 0 });

/** A sandbox that others pause during the first `pauses` calls, and that may have ended. */
function open({
  pauses,
  ended = false,
  environment = async () => ({}),
}: {
  pauses: number;
  ended?: boolean;
  environment?: () => Promise<Record<string, string>>;
}) {
  const state = Object.assign(newRuntimeState(row, 0), { incarnation: "1" });
  const wakes: string[] = [];
  let left = pauses;
  const exec = async (): Promise<SandboxProcess> => {
    if (ended || left > 0) {
      if (left > 0) state.pauseSteps += 1;
      throw new PlatformError("SandboxPaused", { id: "s" });
    }
    return stub<SandboxProcess>({ exit: new Promise(() => {}) });
  };
  const handles = new SandboxHandles({
    driver: stub<SandboxDriver>({ exec }),
    states: new Map([["s", state]]),
    use: stub({ note: () => {}, noteEnd: () => {} }),
    // The pause that froze the processes during the call is recorded here, and ends.
    settled: async () => {
      if (left === 0) return;
      left -= 1;
      state.status = "PAUSED";
      state.pauseSteps += 1;
    },
    wake: async (id) => {
      wakes.push(id);
      state.status = "RUNNING";
    },
    facts: { environment, diskRoom: () => 0 },
  });
  return { sandbox: handles.open(row), state, wakes };
}

test("a command runs although others pause the sandbox again before it begins", async () => {
  const { sandbox, state, wakes } = open({ pauses: 3 });
  await sandbox.exec({ argv: ["true"] });
  expect(wakes).toHaveLength(3);
  expect(state).toMatchObject({ incarnation: "1", runningCommands: 1 });
});

test("processes that are gone are known to be gone after one call", async () => {
  const { sandbox, state, wakes } = open({ pauses: 0, ended: true });
  await expect(sandbox.exec({ argv: ["true"] })).rejects.toThrow("The next use starts it again");
  expect(wakes).toEqual([]);
  expect(state).toMatchObject({ incarnation: undefined, runningCommands: 0 });
});

test("a command counts as running while its environment is looked up, and does not begin in later processes", async () => {
  const { promise, resolve } = Promise.withResolvers<Record<string, string>>();
  const { sandbox, state } = open({ pauses: 0, environment: () => promise });
  const command = sandbox.exec({ argv: ["true"] });
  expect(state.runningCommands).toBe(1);
  state.incarnation = "2";
  resolve({});
  await expect(command).rejects.toMatchObject({ code: "SandboxFailed" });
  expect(state.runningCommands).toBe(0);
});
