import type { Duplex } from "node:stream";
import { stub } from "@sandpiper/core/test/support/stub";
import { expect, test } from "vitest";
import { type IdlePolicy, nextIdleStep } from "./idle.ts";
import { hasTraffic, newRuntimeState, notifyBeforeStop, type SandboxRuntimeState } from "./runtime-state.ts";

const policy: IdlePolicy = { pauseAfterMs: 100, hibernateAfterMs: 50, deleteAfterMs: 1_000 };

function live(change: Partial<SandboxRuntimeState> = {}): SandboxRuntimeState {
  const row = {
    userId: "me",
    specId: "host",
    statusDetail: null,
    incarnation: "1",
    sessionKey: "",
    createdAt: 0,
  } as const;
  const rest = { spec: null, prepared: true, snapshotId: null, lastUsedAt: 0 } as const;
  const base = newRuntimeState({ ...row, ...rest, id: "s", status: "RUNNING" }, 0);
  return Object.assign(base, { incarnation: "1", hasSlot: true }, change);
}
const lease = (busy: boolean) => new Set([{ busy: () => busy, beforeStop: async () => {} }]);

test("an idle sandbox is paused, then hibernated, then deleted, each after its time", () => {
  expect(nextIdleStep(live(), policy, 99)).toBeUndefined();
  expect(nextIdleStep(live(), policy, 100)).toBe("pause");
  const paused = live({ status: "PAUSED", pausedAt: 100 });
  expect(nextIdleStep(paused, policy, 149)).toBeUndefined();
  expect(nextIdleStep(paused, policy, 150)).toBe("hibernate");
  paused.stopped = true;
  expect(nextIdleStep(paused, policy, 999)).toBeUndefined();
  expect(nextIdleStep(paused, policy, 1_000)).toBe("delete");
  expect(nextIdleStep(live({ status: "ERROR" }), policy, 1_000)).toBe("delete");
});

test("a busy or starting sandbox is not paused", () => {
  for (const change of [{ runningCommands: 1 }, { leases: lease(true) }, { status: "STARTING" as const }])
    expect(nextIdleStep(live(change), policy, 5_000)).toBeUndefined();
  expect(nextIdleStep(live({ leases: lease(false) }), policy, 100)).toBe("pause");
});

test("0 switches each step off", () => {
  const off = { pauseAfterMs: 0, hibernateAfterMs: 0, deleteAfterMs: 0 };
  expect(nextIdleStep(live(), off, 1e12)).toBeUndefined();
  expect(nextIdleStep(live({ status: "PAUSED" }), off, 1e12)).toBeUndefined();
});

test("bytes that pass through a connection are traffic once", () => {
  const connection = { bytesRead: 0, bytesWritten: 0 };
  const one = live({
    connections: new Map([[stub<Duplex & { bytesRead: number; bytesWritten: number }>(connection), 0]]),
  } as Partial<SandboxRuntimeState>);
  expect(hasTraffic(one)).toBe(false);
  connection.bytesWritten = 3;
  expect(hasTraffic(one)).toBe(true);
  expect(hasTraffic(one)).toBe(false);
});

test("lease holders that fail or never answer do not keep a sandbox from being stopped", async () => {
  const never = () => new Promise<void>(() => {});
  const failing = async () => Promise.reject(new Error("no"));
  const busy = () => false;
  const notified: string[] = [];
  const leases = new Set([
    { busy, beforeStop: never },
    { busy, beforeStop: failing },
    { busy, beforeStop: async () => void notified.push("last") },
  ]);
  await notifyBeforeStop(live({ leases }), 20);
  expect(notified).toEqual(["last"]);
});
