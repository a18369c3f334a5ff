import type { ErrorTexts } from "./texts.ts";

type Id = { id: string };
/** `action` is a participle such as `written`. */
type FileAction = { path: string; action: string; reason: string };
/** The stored reason of a sandbox's state, if there is one. */
type StoredReason = { reason: string | null };
const formatFileAction = ({ path, action, reason }: FileAction) => `${path} cannot be ${action}: ${reason}.`;

export const sandboxesErrors = {
  SandboxNotFound: {
    UnknownSandbox: "There is no sandbox {id}.",
    SandboxDeleted: "The sandbox {id} has been deleted.",
    CommandSandboxDeleted: "The sandbox has been deleted.",
  },
  SandboxSpecNotFound: {
    UnknownSandboxSpec: "There is no sandbox spec {id}.",
  },
  TooManySandboxes: {
    TooManyKeptSandboxes:
      "You have {max} sandboxes, running and paused ones together, which is the limit of this server: delete some that you no longer need.",
    TooManyImages:
      "Your sandboxes and snapshots keep {max} images, which is the limit of this server: delete those that need an image no longer, or use an image that you have.",
    UserDiskFull:
      "Your sandboxes and snapshots take {amount}: delete files in them, or those that you no longer need.",
  },
  TooManySnapshots: {
    TooManyUserSnapshots:
      "You have {max} snapshots, which is the limit of this server: delete some that you no longer need.",
  },
  SnapshotFailed: {
    SnapshotNotTaken:
      "The snapshot of the sandbox {id} could not be taken ({reason}), and the files of the sandbox are unchanged: try again; if it fails again, look at the server's log.",
  },
  SnapshotNotFound: {
    UnknownSnapshot: "There is no snapshot {id}.",
  },
  SandboxFailed: {
    SandboxHasFailed: ({ reason }: StoredReason) => reason ?? "The sandbox has failed.",
    SandboxNeverRan: ({ id, reason }: Id & StoredReason) =>
      reason ?? `The sandbox ${id} has never run; resume it first.`,
    SandboxStartFailed: "The sandbox could not be started: {reason}.",
    SandboxStartInterrupted: "The server is stopping; the start continues when it is back.",
    SandboxStartTimeout:
      "The sandbox did not start within {seconds} s; look at the server's log, and at the load and free memory of the machine.",
    SandboxesInUse:
      "All {max} sandboxes that you may run at a time are in use: pause or delete one, or try again when one is idle.",
    SandboxNoLongerRuns: "The sandbox {id} no longer runs; try again.",
    SandboxRestarted: "The sandbox {id} has been restarted; try again.",
    SandboxProcessesGone: "{reason} The next use starts it again with its files.",
    SnapshotNotOpened: "The snapshot {id} could not be opened.",
    SnapshotOpenTimeout:
      "A sandbox for a snapshot did not start within {seconds} s; look at the load of the machine.",
    SandboxUnresponsive: "The sandbox did not answer within a minute; it may have been paused. Try again.",
    SandboxRunsNoCommands: "The sandbox does not run commands; it may be stopping. Try again.",
    FileShrank: "The file became shorter while it was read; try again.",
    FolderNotReplaced: "The files in {folder} could not be replaced and are unchanged: {reason}.",
    ServerStopping: "The server is stopping; try again when it is back.",
    ProcessLimitReached:
      "The command could not start, because the sandbox's limit of {pids} processes is reached: end programs and background jobs that are no longer needed.",
    NoShell: "No shell could be started in the sandbox; it needs a working /bin/sh.",
  },
  SandboxNotRunning: {
    SandboxQueued:
      "The sandbox {id} has not started yet: it waits in position {position}, because all {max} sandboxes that you may run at a time are in use. Delete it, or pause or delete another one.",
  },
  SandboxSpecUnusable: {
    SpecPrepareTimeout:
      "The spec {id} was not ready within {seconds} s; look at the connection to its registry, then resume the sandbox.",
    InvalidImageReference: ({ reference }: { reference: string }) =>
      `${JSON.stringify(reference.length > 120 ? `${reference.slice(0, 120)}…` : reference)} is not an image reference: write one such as debian:12, localhost:5000/app:1 or ghcr.io/owner/app@sha256:….`,
    ImageSettingUnusable: "The setting sandbox_base_container_image cannot be used: {reason}",
    InvalidSpecUser: ({ user }: { user: string }) =>
      `The user ${JSON.stringify(user)} must be a name, uid or uid:gid.`,
  },
  FileNotFound: {
    FileMissing: "There is no {path} in the sandbox.",
  },
  InvalidParameter: {
    FileActionFailed: formatFileAction,
    PathEmpty: "A path must not be empty.",
    PathWithNul: "A path must not contain a NUL character.",
    PathTooLong: "The path is too long: a path has at most 4000 bytes, and each name in it 255.",
    ArchiveFailed: "The archive could not be {action} {folder}: {reason}.",
  },
  FileForbidden: {
    FileActionForbidden: formatFileAction,
  },
  NotAFile: {
    FileKindWrong: formatFileAction,
  },
  GitRefused: {
    PathOutsideRepository: "{path} is not in a git repository.",
    FileTooLargeForDiff: "{path} is larger than 1 MiB: no diff is shown.",
    UnknownGitReference: "The repository has no reference {ref}.",
    InvalidCommitId: "A commit id has 4 to 64 hex digits.",
  },
  GitFailed: {
    GitNotInstalled: "The sandbox has no git; use an image that has it.",
    GitTimeout: "git did not answer within {seconds} s.",
    RepositoryUnreadable: "git could not read the repository: {reason}.",
  },
  EventNotFound: {
    CommandUnknown: "There is no command with this id in the sandbox.",
    CommandEventsRemoved: "The command's events were removed while it ran.",
  },
  BodyTooLarge: {
    CommandTooLong: "A command has at most {maxBytes} bytes; upload a script and run it.",
  },
  TooManyRequests: {
    TooManyWaitingCommands: "{count} commands are waiting in this sandbox; try again when some have ended.",
  },
  StorageFull: {
    CommandDiskFull:
      "The disk of the data folder is full, so the command was not started; make room and try again.",
  },
  ConfigInvalid: {
    RegistryAuthInvalid: "The file of SANDPIPER_REGISTRY_AUTH, {file}, {reason}.",
    SpecsFileUnreadable: "The specs file {file} {reason}.",
    ImageSpecMissing:
      "SANDPIPER_DRIVER={driver} needs an image for its sandboxes: write a spec with an image such as docker.io/library/debian:12 into {file} (docs/team/sandboxes.md).",
    SpecsFileInvalid: "In the specs file {file}, {path} {problem}.",
    AuthorityKeyDamaged:
      "The key file {file} is damaged: restore it from a backup, or remove it and recreate the sandboxes that trust it.",
    AuthorityKeyNotPrivate: "Other users can read the key file {file}: restrict it with chmod 600 {file}.",
  },
} as const satisfies ErrorTexts;
