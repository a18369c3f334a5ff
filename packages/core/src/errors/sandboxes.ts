import type { ErrorTexts } from "./texts.ts";

type Id = { id: string };
type Reason = { reason: string };
type Seconds = { seconds: number };
type Path = { path: string };
/** `action` is a participle such as `written`. */
type FileAction = { path: string; action: string; reason: string };
/** The stored reason of a sandbox's state, if there is one. */
type StoredReason = { reason: string | null };

const formatFileAction = ({ path, action, reason }: FileAction) => `${path} cannot be ${action}: ${reason}.`;

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
  SandboxDeletedMeanwhile: ["SandboxFailed", ({ id }: Id) => `The sandbox ${id} has been deleted.`],
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
  SandboxUnresponsive: [
    "SandboxFailed",
    "The sandbox did not answer within a minute; it may have been paused. Try again.",
  ],
  SandboxRunsNoCommands: [
    "SandboxFailed",
    "The sandbox does not run commands; it may be stopping. Try again.",
  ],
  FileMissing: ["FileNotFound", ({ path }: Path) => `There is no ${path} in the sandbox.`],
  FileActionFailed: ["InvalidParameter", formatFileAction],
  FileActionForbidden: ["FileForbidden", formatFileAction],
  FileKindWrong: ["NotAFile", formatFileAction],
  FileShrank: ["SandboxFailed", "The file became shorter while it was read; try again."],
  PathEmpty: ["InvalidParameter", "A path must not be empty."],
  PathWithNul: ["InvalidParameter", "A path must not contain a NUL character."],
  PathTooLong: [
    "InvalidParameter",
    "The path is too long: a path has at most 4000 bytes, and each name in it 255.",
  ],
  ArchiveFailed: [
    "InvalidParameter",
    ({ action, folder, reason }: { action: string; folder: string } & Reason) =>
      `The archive could not be ${action} ${folder}: ${reason}.`,
  ],
  FolderNotReplaced: [
    "SandboxFailed",
    ({ folder, reason }: { folder: string } & Reason) =>
      `The files in ${folder} could not be replaced and are unchanged: ${reason}.`,
  ],
  PathOutsideRepository: ["GitRefused", ({ path }: Path) => `${path} is not in a git repository.`],
  FileTooLargeForDiff: ["GitRefused", ({ path }: Path) => `${path} is larger than 1 MiB: no diff is shown.`],
  UnknownGitReference: [
    "GitRefused",
    ({ ref }: { ref: string }) => `The repository has no reference ${ref}.`,
  ],
  InvalidCommitId: ["GitRefused", "A commit id has 4 to 64 hex digits."],
  GitNotInstalled: ["GitFailed", "The sandbox has no git; use an image that has it."],
  GitTimeout: ["GitFailed", ({ seconds }: Seconds) => `git did not answer within ${seconds} s.`],
  RepositoryUnreadable: [
    "GitFailed",
    ({ reason }: Reason) => `git could not read the repository: ${reason}.`,
  ],
  ServerStopping: ["SandboxFailed", "The server is stopping; try again when it is back."],
  CommandSandboxDeleted: ["SandboxNotFound", "The sandbox has been deleted."],
  CommandEventsRemoved: ["EventNotFound", "The command's events were removed while it ran."],
  CommandTooLong: [
    "BodyTooLarge",
    ({ maxBytes }: { maxBytes: number }) =>
      `A command has at most ${maxBytes} bytes; upload a script and run it.`,
  ],
  TooManyWaitingCommands: [
    "TooManyRequests",
    ({ count }: { count: number }) =>
      `${count} commands are waiting in this sandbox; try again when some have ended.`,
  ],
  CommandDiskFull: [
    "StorageFull",
    "The disk of the data folder is full, so the command was not started; make room and try again.",
  ],
  NoShell: ["SandboxFailed", "No shell could be started in the sandbox; it needs a working /bin/sh."],
  InvalidImageReference: [
    "SandboxSpecUnusable",
    ({ reference }: { reference: string }) =>
      `${JSON.stringify(reference.length > 120 ? `${reference.slice(0, 120)}…` : reference)} is not an image reference: write one such as debian:12, localhost:5000/app:1 or ghcr.io/owner/app@sha256:….`,
  ],
  ImageSettingUnusable: [
    "SandboxSpecUnusable",
    ({ reason }: Reason) => `The setting sandbox_base_container_image cannot be used: ${reason}`,
  ],
  InvalidSpecUser: [
    "SandboxSpecUnusable",
    ({ user }: { user: string }) => `The user ${JSON.stringify(user)} must be a name, uid or uid:gid.`,
  ],
  SpecsFileUnreadable: [
    "ConfigInvalid",
    ({ file, reason }: { file: string } & Reason) => `The specs file ${file} ${reason}.`,
  ],
  SpecsFileInvalid: [
    "ConfigInvalid",
    ({ file, path, problem }: { file: string; path: string; problem: string }) =>
      `In the specs file ${file}, ${path} ${problem}.`,
  ],
  AuthorityKeyDamaged: [
    "ConfigInvalid",
    ({ file }: { file: string }) =>
      `The key file ${file} is damaged: restore it from a backup, or remove it and recreate the sandboxes that trust it.`,
  ],
  AuthorityKeyNotPrivate: [
    "ConfigInvalid",
    ({ file }: { file: string }) =>
      `Other users can read the key file ${file}: restrict it with chmod 600 ${file}.`,
  ],
} as const satisfies ErrorTexts;
