import type { ErrorTexts } from "./texts.ts";

export const storeErrors = {
  StoredConversationMissing: ["ConversationNotFound", "Conversation not found"],
  StoredSandboxMissing: ["SandboxNotFound", "Sandbox not found"],
  StoredStartTaskMissing: ["StartTaskNotFound", "Start task not found"],
  TitlePatternTooLong: [
    "InvalidParameter",
    ({ max }: { max: number }) => `title__contains has more than ${max} characters.`,
  ],
  PendingMessageDelivered: ["MessageDelivered", "The message has already been delivered."],
  NavigatedWhileRunning: ["ConversationRunning", "The conversation is running: pause it first."],
  ConversationLogFull: [
    "StorageFull",
    "The conversation has reached the maximum number of events: start another one.",
  ],
  DiskFull: [
    "StorageFull",
    "The disk of the data folder is full: nothing was stored; make room and try again.",
  ],
  DatabaseLocked: ["StorageBusy", "Another program has locked the database: nothing was stored; try again."],

  DataFolderUnusable: [
    "ConfigInvalid",
    ({ path, reason }: { path: string; reason: string }) =>
      `The data folder ${path} cannot be made (${reason}): choose another one with SANDPIPER_DATA.`,
  ],
  DataFolderInUse: [
    "ConfigInvalid",
    ({ dir }: { dir: string }) =>
      `The data folder ${dir} is in use by another Sandpiper process: stop that one, or set SANDPIPER_DATA to another folder.`,
  ],
  DatabaseTooNew: [
    "ConfigInvalid",
    ({ dir, version, known }: { dir: string; version: number; known: number }) =>
      `The data folder ${dir} was written by a newer version of Sandpiper (schema ${version}, this one knows ${known}): start that version, or restore a backup.`,
  ],
  DatabaseDamaged: [
    "ConfigInvalid",
    ({ file }: { file: string }) => `The database ${file} is damaged: restore it from a backup.`,
  ],
  DecryptionFailed: [
    "ConfigInvalid",
    ({ place }: { place: string }) =>
      `Encrypted data (${place}) cannot be opened: the key file belongs to other data, or the data is damaged. Put the key file of this data folder back, or restore a backup.`,
  ],
  KeyFileMissing: [
    "ConfigInvalid",
    ({ keyFile }: { keyFile: string }) =>
      `The key file ${keyFile} is missing, but the data folder holds data that it has encrypted: put it back.`,
  ],
  KeyFileExposed: [
    "ConfigInvalid",
    ({ keyFile, mode }: { keyFile: string; mode: string }) =>
      `The key file ${keyFile} is open to other users (mode 0${mode}): close it with chmod 600 ${keyFile}.`,
  ],
  KeyFileSize: [
    "ConfigInvalid",
    ({ keyFile, size, expected }: { keyFile: string; size: number; expected: number }) =>
      `The key file ${keyFile} has ${size} bytes instead of ${expected}: restore it from a backup.`,
  ],
  ListenPortInUse: [
    "ConfigInvalid",
    ({ host, port }: { host: string; port: number }) =>
      `The port ${port} of ${host} is in use: end the other program, or choose another one with SANDPIPER_PORT.`,
  ],
  ListenFailed: [
    "ConfigInvalid",
    ({ host, port, reason }: { host: string; port: number; reason: string }) =>
      `The server cannot listen on ${host}:${port}: ${reason}.`,
  ],
} as const satisfies ErrorTexts;
