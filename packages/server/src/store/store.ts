import type { BlobReferenceStore } from "@sandpiper/core/blobs/reference-store";
import type { SandboxStore, SnapshotStore } from "@sandpiper/sandbox/sandbox-store";
import type { BehaviourStore } from "./behaviour-store.ts";
import type { CallbackStore } from "./callback-store.ts";
import type {
  ContextStore,
  ConversationAgentStore,
  ConversationSecretStore,
  PendingMessageStore,
} from "./conversation-parts.ts";
import type { ConversationStore } from "./conversation-store.ts";
import type { EventLog } from "./event-log.ts";
import type { ModelCallStore } from "./model-calls.ts";
import type { NodeStore } from "./node-store.ts";
import type { SlotStore } from "./slot-store.ts";
import type { StartTaskStore } from "./start-task-store.ts";
import type { ApiKeyStore, DocumentStore, LoginStore, SpendingStore } from "./user-store.ts";

/**
 * Persistent state. Ids are dashed UUIDs, times are milliseconds since the epoch. A read is one
 * indexed statement; writes resolve when they are durable.
 */
export interface Store {
  readonly events: EventLog;
  readonly modelCalls: ModelCallStore;
  readonly conversations: ConversationStore;
  readonly startTasks: StartTaskStore;
  readonly sandboxes: SandboxStore;
  readonly snapshots: SnapshotStore;
  readonly pendingMessages: PendingMessageStore;
  readonly contexts: ContextStore;
  readonly agents: ConversationAgentStore;
  readonly settings: DocumentStore;
  readonly userSecrets: DocumentStore;
  readonly conversationSecrets: ConversationSecretStore;
  readonly apiKeys: ApiKeyStore;
  readonly logins: LoginStore;
  readonly spending: SpendingStore;
  readonly callbacks: CallbackStore;
  readonly behaviours: BehaviourStore;
  /** References to shared blobs; undefined: the engine does not share blobs yet. */
  readonly blobs: BlobReferenceStore;
  /** The nodes; undefined in a store that only one server may use. */
  readonly nodes?: NodeStore;
  /** The slots that all nodes share; undefined in a store that only one server may use. */
  readonly slots?: SlotStore;
  /** Increases before the promise of a write resolves; a key for caches. */
  version(): number;
  /** Writes the queue and releases the files and the lock of the data folder. */
  close(): Promise<void>;
}
