import type { Store } from "../store.ts";
import { SqlApiKeys } from "./api-keys.ts";
import { SqlBehaviours } from "./behaviours.ts";
import { SqlBlobReferences } from "./blobs.ts";
import { SqlCallbacks } from "./callbacks.ts";
import type { SqlContext } from "./context.ts";
import { SqlConversationAgents } from "./conversation-agents.ts";
import { SqlConversationContexts } from "./conversation-contexts.ts";
import { SqlConversationSecrets } from "./conversation-secrets.ts";
import { SqlConversations } from "./conversations.ts";
import type { DocumentCache } from "./document-cache.ts";
import { EncryptedDocuments } from "./encrypted-documents.ts";
import { SqlLogins } from "./logins.ts";
import { SqlModelCalls } from "./model-calls.ts";
import { SqlPendingMessages } from "./pending-messages.ts";
import { type SandboxOwnerColumns, SqlSandboxes } from "./sandboxes.ts";
import { SqlSnapshots } from "./snapshots.ts";
import { SqlSpending } from "./spending.ts";
import { SqlStartTasks } from "./start-tasks.ts";

/**
 * Caches of documents; by default they keep every read document, because no other process writes.
 */
export interface StoreCaches {
  settings?: DocumentCache;
  userSecrets?: DocumentCache;
}

/**
 * Creates the parts of a store that are the same on all engines. `owner` is as in `SqlSandboxes`.
 */
export function createSqlStores(
  context: SqlContext,
  { settings, userSecrets }: StoreCaches = {},
  owner?: () => SandboxOwnerColumns | undefined,
): Omit<Store, "events" | "nodes" | "slots" | "version" | "close"> {
  return {
    modelCalls: new SqlModelCalls(context),
    conversations: new SqlConversations(context),
    startTasks: new SqlStartTasks(context),
    sandboxes: new SqlSandboxes(context, owner),
    snapshots: new SqlSnapshots(context),
    blobs: new SqlBlobReferences(context),
    pendingMessages: new SqlPendingMessages(context),
    contexts: new SqlConversationContexts(context),
    behaviours: new SqlBehaviours(context),
    agents: new SqlConversationAgents(context),
    settings: new EncryptedDocuments(context, "settings", settings),
    userSecrets: new EncryptedDocuments(context, "user_secrets", userSecrets),
    conversationSecrets: new SqlConversationSecrets(context),
    apiKeys: new SqlApiKeys(context),
    logins: new SqlLogins(context),
    spending: new SqlSpending(context),
    callbacks: new SqlCallbacks(context),
  };
}
