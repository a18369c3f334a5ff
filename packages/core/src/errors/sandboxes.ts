import type { ErrorTexts } from "./texts.ts";

type Id = { id: string };
type Reason = { reason: string };
type Seconds = { seconds: number };
/** The stored reason of a sandbox's state, if there is one. */
type StoredReason = { reason: string | null };

export const sandboxesErrors = {
  UnknownSandbox: ["SandboxNotFound", ({ id }: Id) => `There is no sandbox ${id}.`],
  SandboxDeleted: ["SandboxNotFound", ({ id }: Id) => `The sandbox ${id} has been deleted.`],
  UnknownSandboxSpec: ["SandboxSpecNotFound", ({ id }: Id) => `There is no sandbox spec ${id}.`],
  UnknownSnapshot: ["SnapshotNotFound", ({ id }: Id) => `There is no snapshot ${id}.`],
  SandboxHasFailed: ["SandboxFailed", ({ reason }: StoredReason) => reason ?? "The sandbox has failed."],
  SandboxNeverRan: [
    "SandboxFailed",
    ({ id, reason }: Id & StoredReason) => reason ?? `The sandbox ${id} has never run; resume it first.`,
  ],
  SandboxStartFailed: [
    "SandboxFailed",
    ({ reason }: Reason) => `The sandbox could not be started: ${reason}.`,
  ],
  SandboxStartInterrupted: ["SandboxFailed", "The server is stopping; the start continues when it is back."],
  SandboxStartTimeout: [
    "SandboxFailed",
    ({ seconds }: Seconds) =>
      `The sandbox did not start within ${seconds} s; look at the server's log, and at the load and free memory of the machine.`,
  ],
  SpecPrepareTimeout: [
    "SandboxSpecUnusable",
    ({ id, seconds }: Id & Seconds) =>
      `The spec ${id} was not ready within ${seconds} s; look at the connection to its registry, then resume the sandbox.`,
  ],
  SandboxNoLongerRuns: ["SandboxFailed", ({ id }: Id) => `The sandbox ${id} no longer runs; try again.`],
  SandboxRestarted: ["SandboxFailed", ({ id }: Id) => `The sandbox ${id} has been restarted; try again.`],
  SandboxGone: ["SandboxFailed", ({ id }: Id) => `The sandbox ${id} has been deleted.`],
  SandboxProcessesGone: [
    "SandboxFailed",
    ({ reason }: Reason) => `${reason} The next use starts it again with its files.`,
  ],
  SnapshotNotOpened: ["SandboxFailed", ({ id }: Id) => `The snapshot ${id} could not be opened.`],
  SnapshotOpenTimeout: [
    "SandboxFailed",
    ({ seconds }: Seconds) =>
      `A sandbox for a snapshot did not start within ${seconds} s; look at the load of the machine.`,
  ],
} as const satisfies ErrorTexts;
