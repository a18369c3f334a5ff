import type { AgentDefinition } from "@sandpiper/agent/skills/agent-definitions";
import type { ClientTool, CondenserSettings, Content, GivenAgent, GivenLlm } from "@sandpiper/wire";
import type { SandboxScope } from "./sandbox-scope.ts";

/** A user's message that waits for its conversation. */
export interface PendingMessageRow {
  id: string;
  userId: string;
  /** The conversation may not exist yet; its start task has the id. */
  conversationId: string;
  content: Content[];
  createdAt: number;
}

export interface PendingMessageStore {
  create(row: PendingMessageRow): Promise<void>;
  /** Oldest first. */
  listByConversation(conversationId: string): Promise<PendingMessageRow[]>;
  /**
   * Lists the ids of conversations with pending messages: those in the sandboxes; by default all,
   * also conversations that do not exist yet.
   */
  listConversations(scope?: SandboxScope): Promise<string[]>;
  removeByConversation(conversationId: string): Promise<void>;
}

/** Project context of conversations; removed with the conversation. */
export interface ContextStore {
  /** `activated` has the names of skills that messages activated. */
  get(conversationId: string): Promise<{ document: unknown; activated: string[] } | undefined>;
  /**
   * Stores the document that `change` makes of the stored one (undefined: none), and returns it.
   * `known` is the document that the caller takes for the stored one. Calls `change` again when
   * another process has changed the document meanwhile. Throws ConversationNotFound, and
   * StorageBusy when other processes change the document at every attempt.
   */
  change<T>(conversationId: string, change: (document: unknown) => T, known?: unknown): Promise<T>;
  /** Changes the names of the activated skills, in the same way as `change`. */
  activate(conversationId: string, change: (names: readonly string[]) => readonly string[]): Promise<void>;
}

/** Client-defined agents of conversations, encrypted; removed with the conversation. */
export interface ConversationAgentStore {
  get(conversationId: string): Promise<AgentDocument | undefined>;
  /**
   * Stores the document that `change` makes of the stored one. Calls `change` again when another
   * process has changed the document meanwhile. Throws ConversationNotFound, StorageBusy, and what
   * `change` throws.
   */
  change(
    conversationId: string,
    change: (document: AgentDocument | undefined) => AgentDocument,
  ): Promise<void>;
}

/** A client-defined agent (agent-server.md section 3.1), secrets included. */
export interface AgentDocument {
  agent?: GivenAgent;
  /** Differences from the user's condenser, when the client's agent settings have no condenser. */
  condenser?: Partial<CondenserSettings>;
  /** The model that the conversation was switched to. */
  llm?: GivenLlm;
  clientTools?: readonly ClientTool[];
  /** Names of tools that replace the defaults; finish and think are always present. */
  tools?: readonly string[];
  /** Names of the tools that match `filter_tools_regex`, if it is set. */
  keptTools?: readonly string[];
  hookConfig?: Record<string, unknown>;
  /** Hooks of a sub-agent, after those of its parent. */
  ownHooks?: Record<string, unknown>;
  /** Sub-agents that the client defines. */
  definitions?: readonly AgentDefinition[];
}

/** Secrets of conversations, encrypted; removed with the conversation. */
export interface ConversationSecretStore {
  /**
   * Stores the row that `change` makes of the current one; stores nothing when `change` returns
   * undefined. Calls `change` again when another process has changed the row meanwhile. Throws
   * StorageBusy when other processes change the row at every attempt.
   */
  change(
    conversationId: string,
    change: (row: ConversationSecretsRow | undefined) => ConversationSecretsRow | undefined,
  ): Promise<void>;
  get(conversationId: string): Promise<ConversationSecretsRow | undefined>;
  /** Rows of the conversations in a sandbox, oldest first. */
  listBySandbox(sandboxId: string): Promise<ConversationSecretsRow[]>;
  /** Removes the row if it exists. */
  remove(conversationId: string): Promise<void>;
}

export interface ConversationSecretsRow {
  conversationId: string;
  userId: string;
  sandboxId: string;
  values: Readonly<Record<string, string>>;
  /** Descriptions for the agent, by secret name. */
  descriptions?: Readonly<Record<string, string>> | undefined;
  /** Sources of secrets that the server fetches again, by secret name. */
  sources?: Readonly<Record<string, LookupSecretSource>> | undefined;
  /** Names of the user's secrets that apply in the sandbox; absent: all. */
  scope?: readonly string[] | undefined;
}

/** A URL that returns the value of a secret. */
export interface LookupSecretSource {
  url: string;
  headers?: Readonly<Record<string, string>>;
  /** Time of the last fetch, ms since the epoch. */
  at: number;
}
