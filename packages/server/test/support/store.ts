import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import type { NewEvent } from "@sandpiper/wire";
import type { NewConversation } from "../../src/store/conversation-store.ts";
import { emptyConfig } from "../../src/store/empty-config.ts";
import { sqliteStoreExists } from "../../src/store/sqlite/folder.ts";
import { openSqliteStore } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { openVault } from "../../src/store/vault.ts";

/** For tests: a new temporary data folder. */
export function temporaryFolder(): { dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), "sandpiper-store-"));
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) };
}

/** Opens the store of a data folder as the server does, with the key file next to it. */
export async function openStore(dir: string, clock?: () => number): Promise<Store> {
  const vault = await openVault(join(dir, "vault.key"), { create: !sqliteStoreExists(dir) });
  return openSqliteStore({ dir, vault, ...(clock && { clock }) });
}

/** For tests: a real store in a temporary folder, which `close` removes. */
export async function createTestStore(
  clock?: () => number,
): Promise<{ store: Store; dir: string; close(): Promise<void> }> {
  const { dir, remove } = temporaryFolder();
  const store = await openStore(dir, clock);
  return {
    store,
    dir,
    async close() {
      await store.close();
      remove();
    },
  };
}

/** For tests: what `conversations.create` takes. */
export function conversationRow(change: Partial<NewConversation> = {}): NewConversation {
  return {
    id: randomUUID(),
    userId: "default",
    sandboxId: randomUUID(),
    config: { ...emptyConfig("/workspace"), llmModel: "demo/plan" },
    title: "A conversation",
    parentId: null,
    createdAt: 1_700_000_000_000,
    ...change,
  };
}

/** Fills a data folder with hibernated conversations. Returns their ids. */
export async function fillWithConversations(
  dir: string,
  count: number,
  change: Partial<NewConversation> = {},
): Promise<string[]> {
  const store = await openStore(dir);
  const rows = Array.from({ length: count }, (_, index) =>
    conversationRow({ title: `Conversation ${index}`, ...change }),
  );
  const state = {
    status: "PAUSED",
    statusDetail: null,
    incarnation: "1",
    spec: null,
    prepared: false,
    snapshotId: null,
  } as const;
  const times = { createdAt: Date.now(), lastUsedAt: Date.now() };
  const sandbox = ({ sandboxId: id, userId }: NewConversation) =>
    store.sandboxes.create({ id, userId, specId: "host", sessionKey: randomUUID(), ...state, ...times });
  await Promise.all(rows.flatMap((row) => [store.conversations.create(row), sandbox(row)]));
  await store.close();
  return rows.map(({ id }) => id);
}

/** For tests: a listed user message. */
export function message(text: string, id?: string): NewRecord {
  const event: NewEvent = {
    kind: "MessageEvent",
    source: "user",
    llm_message: { role: "user", content: [{ type: "text", text }] },
    activated_skills: [],
    extended_content: [],
    ...(id !== undefined && { id }),
  };
  return { listed: true, event };
}

/** For tests: a control record. */
export function stateUpdate(key: string, value: unknown): NewRecord {
  return {
    listed: false,
    event: { kind: "ConversationStateUpdateEvent", source: "environment", key, value },
  };
}
