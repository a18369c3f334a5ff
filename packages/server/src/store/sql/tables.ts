import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { ExecutionStatus, StartTaskStatus } from "@sandpiper/wire";
import type { Compilable, Generated } from "kysely";
import type { SqlValue, Statement } from "./statement.ts";

/** Tables that all engines have, for the query builder; the migrations describe the columns. */
export interface Tables {
  conversations: ConversationRecord;
  start_tasks: StartTaskRecord;
  sandboxes: SandboxRecord;
  snapshots: SnapshotRecord;
  pending_messages: PendingMessageRecord;
  conversation_agents: { conversation_id: string; document: Uint8Array };
  conversation_contexts: { conversation_id: string; document: string; activated: string };
  settings: { user_id: string; document: Uint8Array };
  user_secrets: { user_id: string; document: Uint8Array };
  conversation_secrets: ConversationSecretsRecord;
  api_keys: ApiKeyRecord;
  logins: { hash: Uint8Array; key_id: string; created_at: number; expires_at: number };
  callbacks: CallbackRecord;
  behaviours: BehaviourRecord;
  accepted_behaviours: AcceptedBehaviourRecord;
}

export interface BehaviourRecord {
  number: Generated<number>;
  holder: string;
  user_id: string;
  working_dir: string;
  digest: string;
  origin: string;
  parts: string;
}

export interface AcceptedBehaviourRecord {
  number: Generated<number>;
  user_id: string;
  digest: string;
  origin: string;
  parts: string;
  accepted_at: number;
}

export interface ConversationRecord {
  number: Generated<number>;
  id: string;
  user_id: string;
  sandbox_id: string;
  config: string;
  title: string | null;
  parent_id: string | null;
  created_at: number;
  updated_at: number;
  execution_status: Generated<ExecutionStatus>;
  metrics: Generated<string | null>;
  head: Generated<string | null>;
  stats: Generated<string | null>;
  unclean_ends: Generated<number>;
}

export interface StartTaskRecord {
  number: Generated<number>;
  id: string;
  user_id: string;
  status: StartTaskStatus;
  detail: string | null;
  conversation_id: string;
  sandbox_id: string | null;
  request: string;
  created_at: number;
  updated_at: number;
}

export interface SandboxRecord {
  number: Generated<number>;
  id: string;
  user_id: string;
  spec_id: string;
  status: SandboxRow["status"];
  status_detail: string | null;
  incarnation: string;
  session_key: Uint8Array;
  created_at: number;
  spec: string | null;
  prepared: number;
  snapshot_id: string | null;
  last_used_at: number;
}

export interface SnapshotRecord {
  number: Generated<number>;
  id: string;
  user_id: string;
  sandbox_id: string;
  spec: string;
  created_at: number;
}

export interface PendingMessageRecord {
  number: Generated<number>;
  id: string;
  user_id: string;
  conversation_id: string;
  content: string;
  created_at: number;
}

export interface ConversationSecretsRecord {
  number: Generated<number>;
  conversation_id: string;
  user_id: string;
  sandbox_id: string;
  document: Uint8Array;
}

export interface ApiKeyRecord {
  id: string;
  user_id: string;
  name: string;
  hash: Uint8Array;
  created_at: number;
  expires_at: number | null;
  last_used_at: number | null;
  read_only: number;
}

export interface CallbackRecord {
  number: Generated<number>;
  id: string;
  user_id: string;
  conversation_id: string;
  processor: string;
  secret: Uint8Array | null;
  status: "ACTIVE" | "FAILED";
  detail: string | null;
  next_seq: number;
  attempts: number;
  failing_since: number | null;
  next_attempt_at: number | null;
  created_at: number;
}

export function compile(query: Compilable): Statement {
  const { sql, parameters } = query.compile();
  return { sql, parameters: parameters as readonly SqlValue[] };
}
