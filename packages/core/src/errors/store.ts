import type { ErrorTexts } from "./texts.ts";

export const storeErrors = {
  ConversationNotFound: {
    StoredConversationMissing: "Conversation not found",
  },
  SandboxNotFound: {
    StoredSandboxMissing: "Sandbox not found",
  },
  StartTaskNotFound: {
    StoredStartTaskMissing: "Start task not found",
  },
  InvalidParameter: {
    TitlePatternTooLong: "title__contains has more than {max} characters.",
  },
  MessageDelivered: {
    PendingMessageDelivered: "The message has already been delivered.",
  },
  ConversationRunning: {
    NavigatedWhileRunning: "The conversation is running: pause it first.",
  },
  StorageFull: {
    DiskFull: "The disk of the data folder is full: nothing was stored; make room and try again.",
    DatabaseDiskFull: "The disk of the database is full: nothing was stored; make room and try again.",
  },
  StorageQuotaReached: {
    ConversationLogFull: "The conversation has reached the maximum number of events: start another one.",
    ConversationStorageFull:
      "The conversation has stored as much as a conversation of this server may: continue in a new one.",
    UserStorageFull:
      "Your conversations have stored as much as a user of this server may: delete some that you no longer need.",
  },
  StorageBusy: {
    DatabaseLocked: "Another program has locked the database: nothing was stored; try again.",
    DatabaseSlow: "The database did not answer in time: nothing was stored; try again.",
    RowContended: "Other requests change the same data all the time: nothing was stored; try again.",
  },
  DatabaseUnavailable: {
    DatabaseDown: "The database cannot be reached: try again in a moment.",
    WriteUncertain:
      "The connection to the database broke during a write, which may have been stored or not: look before you repeat it.",
    MoveInterrupted:
      "The connection to the database at {address} broke ({reason}): run the command again, which finds out what is there.",
  },
  OwnershipLost: {
    EpochPassed: "Another server has taken over the conversation: nothing was stored.",
  },
  ConfigInvalid: {
    DataFolderUnusable:
      "The data folder {path} cannot be created ({reason}): choose another one with SANDPIPER_DATA.",
    DataFolderInUse:
      "The data folder {dir} is in use by another Sandpiper process: stop that one, or set SANDPIPER_DATA to another folder.",
    PlaceIdDamaged:
      "The file {file} is damaged: it holds the id of this data folder, so restore it from a backup, or remove it to make the folder a new place.",
    DatabaseTooNew:
      "The data folder {dir} was written by a newer version of Sandpiper (schema {version}, this one knows {known}): start that version, or restore a backup.",
    DatabaseSourcesConflict:
      "Both SANDPIPER_DATABASE_URL and SANDPIPER_DATABASE_URL_FILE are set: remove one of them.",
    DatabaseFileUnreadable:
      "The file {path} of SANDPIPER_DATABASE_URL_FILE cannot be read ({reason}): give the server's user access to it.",
    DatabaseFileInvalid:
      "The file {path} of SANDPIPER_DATABASE_URL_FILE has no address such as postgres://user:password@host/database: write one into it.",
    DatabaseUnreachable:
      "The database at {address} cannot be reached ({reason}): check SANDPIPER_DATABASE_URL and that PostgreSQL is running.",
    DatabaseRefused:
      "The database at {address} refused the login ({reason}): check user, password and database name in SANDPIPER_DATABASE_URL.",
    DatabaseTooOld:
      "The database at {address} is PostgreSQL {version}: Sandpiper needs version {oldest} or newer.",
    DatabaseEncoding:
      "The database at {address} has the encoding {encoding}: create one with ENCODING 'UTF8' and name it in SANDPIPER_DATABASE_URL.",
    DatabaseForeign:
      "The database at {address} has tables of another program ({table}): create an empty database and name it in SANDPIPER_DATABASE_URL.",
    DatabaseRights:
      "The user of SANDPIPER_DATABASE_URL may not create or change tables in {address} ({reason}): make it the owner of the database.",
    SchemaTooNew:
      "The database at {address} was changed by a newer version of Sandpiper (schema {version}, this one knows {known}): start that version, or restore a backup.",
    DatabaseKeyWrong:
      "The vault key does not belong to the data in the database at {address}: start with the key of the servers that use it.",
    MoveSourceMissing:
      "The data folder {dir} has no store to copy: name the right folder with SANDPIPER_DATA, or start on the empty database.",
    MoveSourceOld:
      "The data folder {dir} was written by an older version of Sandpiper: run the command without --dry-run, which upgrades it as the server does at its start.",
    MoveTargetMissing:
      "No database is named: set SANDPIPER_DATABASE_URL_FILE to a file with its address, or SANDPIPER_DATABASE_URL.",
    MoveTargetInUse:
      "A Sandpiper server works on the database at {address}: end it, for example with `systemctl stop sandpiper`, and run the command again; after a kill -9 it counts for four more seconds.",
    MoveTargetBusy:
      "Another command, or a server that starts, prepares the database at {address}: run the command again when it has ended.",
    MoveTargetUsed:
      "The database at {address} holds other data ({detail}), and was not changed: create an empty database and name it in SANDPIPER_DATABASE_URL.",
    MoveDiffers:
      "The copy at {address} differs from the data folder ({detail}), and was taken back: run the command again, and check disk and memory of both machines if that happens twice.",
    DatabaseDamaged: "The database {file} is damaged: restore it from a backup.",
    DecryptionFailed:
      "Encrypted data ({place}) cannot be opened: {source} belongs to other data, or the data is damaged. Give the key of this data back, or restore a backup.",
    KeyFileMissing:
      "The key file {keyFile} is missing, but the data folder holds data that it has encrypted: put it back.",
    KeyFileExposed:
      "The key file {keyFile} is open to other users (mode 0{mode}): close it with chmod 600 {keyFile}.",
    KeyFileSize: "The key file {keyFile} has {size} bytes instead of {expected}: restore it from a backup.",
    GivenKeyFileMissing:
      "The key file {keyFile} (SANDPIPER_VAULT_KEY_FILE) does not exist: make it once with a key of 32 random bytes, for example with `umask 077; head -c 32 /dev/urandom >{keyFile}`.",
    GivenKeyFileUnreadable:
      "The key file {keyFile} (SANDPIPER_VAULT_KEY_FILE) cannot be read ({reason}): let the server's user read it.",
    GivenKeyFileInvalid:
      "The key file {keyFile} (SANDPIPER_VAULT_KEY_FILE) contains no key: write 32 bytes into it, or their base64 or hexadecimal text.",
    VaultKeySourcesConflict:
      "{first} and {second} are both set: keep only the one that gives the key of the vault.",
    KeyCommandUnusable:
      "The program {program} of SANDPIPER_VAULT_KEY_COMMAND cannot be started ({reason}): install it, or write its absolute path.",
    KeyCommandFailed: "SANDPIPER_VAULT_KEY_COMMAND gives no key, because {program} {how}{said}",
    KeyCommandTimeout:
      "SANDPIPER_VAULT_KEY_COMMAND gives no key, because {program} did not end within {seconds} seconds{said}",
    KeyCommandOutputTooLong:
      "{program} of SANDPIPER_VAULT_KEY_COMMAND prints more than {max} bytes: let it print only the key, as base64 or hexadecimal text or as 32 bytes.",
    KeyCommandOutputInvalid:
      "{program} of SANDPIPER_VAULT_KEY_COMMAND prints {size} bytes that are no key: let it print 32 bytes, or their base64 or hexadecimal text{said}",
    ListenPortInUse:
      "The port {port} of {host} is in use: end the other program, or choose another one with SANDPIPER_PORT.",
    ListenFailed: "The server cannot listen on {host}:{port}: {reason}.",
  },
} as const satisfies ErrorTexts;
