import type { ClientTool, CondenserSettings, Content, GivenAgent, GivenLlm } from "@sandpiper/wire";

/** A user's message that waits until its conversation can take it. */
export interface PendingMessageRow {
  id: string;
  userId: string;
  /** The conversation may not exist yet: its start task knows the id. */
  conversationId: string;
  content: Content[];
  createdAt: number;
}

export interface PendingMessageStore {
  create(row: PendingMessageRow): Promise<void>;
  /** In the order in which they came. */
  listByConversation(conversationId: string): PendingMessageRow[];
  /** Conversations for which messages wait. */
  listConversations(): string[];
  removeByConversation(conversationId: string): Promise<void>;
}

/** What a conversation knows of its project beside its log; goes when the conversation is removed. */
export interface ContextStore {
  /** `activated`: names of the skills that messages brought along. */
  get(conversationId: string): { document: unknown; activated: string[] } | undefined;
  /** Replaces the document; `activated` stays. Throws ConversationNotFound, as `activate`. */
  put(conversationId: string, document: unknown): Promise<void>;
  activate(conversationId: string, names: readonly string[]): Promise<void>;
}

/** What clients gave with single conversations, encrypted; it goes when the conversation is removed. */
export interface ConversationAgentStore {
  get(conversationId: string): AgentDocument | undefined;
  /** Replaces the whole. Throws ConversationNotFound. */
  put(conversationId: string, document: AgentDocument): Promise<void>;
}

/** A conversation's own agent (agent-server.md section 3.1), secrets included. */
export interface AgentDocument {
  agent?: GivenAgent;
  /** What differs from the user's condenser, where the agent was given as settings and names no condenser. */
  condenser?: Partial<CondenserSettings>;
  /** The model to which the conversation was switched. */
  llm?: GivenLlm;
  clientTools?: readonly ClientTool[];
  /** Names of its tools beside finish and think, in the place of those that it would have. */
  tools?: readonly string[];
  /** Names of the agent's tools that its `filter_tools_regex` has left, where it has one. */
  keptTools?: readonly string[];
  hookConfig?: Record<string, unknown>;
}

/** Secrets of single conversations, encrypted; they go when the conversation is removed. */
export interface ConversationSecretStore {
  /** Replaces those of the same conversation. */
  put(row: ConversationSecretsRow): Promise<void>;
  get(conversationId: string): ConversationSecretsRow | undefined;
  /** Those of the conversations in a sandbox, in the order in which they were made. */
  listBySandbox(sandboxId: string): ConversationSecretsRow[];
  /** Removing unknown ones is fine. */
  remove(conversationId: string): Promise<void>;
}

export interface ConversationSecretsRow {
  conversationId: string;
  userId: string;
  sandboxId: string;
  values: Readonly<Record<string, string>>;
  /** What the agent is told of them, by name. */
  descriptions?: Readonly<Record<string, string>> | undefined;
  /** Where the server got some of them, and gets them again. */
  sources?: Readonly<Record<string, LookupSecretSource>> | undefined;
}

/** An address that gives a secret. */
export interface LookupSecretSource {
  url: string;
  headers?: Readonly<Record<string, string>>;
  /** When it was asked, ms since the epoch. */
  at: number;
}
