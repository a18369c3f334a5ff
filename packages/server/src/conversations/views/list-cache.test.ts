import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { newId } from "@sandpiper/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { conversationRow, createTestStore, message, stateUpdate } from "../../../test/support/store.ts";
import type { ConversationFilter, ConversationRow } from "../../store/conversation-store.ts";
import { StoredSettings } from "../../users/settings/settings.ts";
import { conversationModel } from "../agent/agent-config.ts";
import { ListCache } from "./list-cache.ts";
import { presentConversation } from "./present.ts";

const userId = "default";
const all: ConversationFilter = { userId, includeSubConversations: true };

let opened: Awaited<ReturnType<typeof createTestStore>>;
let settings: StoredSettings;
let lists: ListCache;
/** Ids of the conversations that were presented since it was emptied. */
let made: string[];
beforeEach(async () => {
  opened = await createTestStore();
  settings = new StoredSettings(opened.store.settings);
  made = [];
  lists = new ListCache({
    store: opened.store,
    present(rows) {
      made.push(...rows.map(({ id }) => id));
      return present(rows);
    },
  });
});
afterEach(() => opened.close());

const viewer = { userId: "default", source: "k0" };

async function present(rows: readonly ConversationRow[]) {
  const { conversations, sandboxes } = opened.store;
  const children = await conversations.listChildren(rows.map(({ id }) => id));
  const presentOne = async (row: ConversationRow) =>
    presentConversation(row, {
      sandbox: await sandboxes.get(row.sandboxId),
      children: children.get(row.id) ?? [],
      model: (await conversationModel(row, settings)).model,
      publicUrl: "http://server",
      source: viewer.source,
    });
  return Promise.all(rows.map(presentOne));
}

/** The page without the cache. */
async function truth(filter: ConversationFilter, limit: number): Promise<unknown> {
  const { items, nextPageId } = await opened.store.conversations.search(filter, { limit });
  return { items: await present(items), next_page_id: nextPageId };
}

async function addConversation(change: Partial<ConversationRow> = {}): Promise<ConversationRow> {
  const row = conversationRow(change);
  await opened.store.conversations.create(row);
  return (await opened.store.conversations.get(row.id))!;
}

async function addSandbox(id: string): Promise<void> {
  const times = { createdAt: 1, lastUsedAt: 1 };
  const rest = {
    statusDetail: null,
    incarnation: "1",
    spec: null,
    prepared: true,
    snapshotId: null,
    ...times,
  };
  const row: SandboxRow = { id, userId, specId: "host", status: "RUNNING", sessionKey: newId(), ...rest };
  await opened.store.sandboxes.create(row);
}

test("a page is built once until the next write", async () => {
  const row = await addConversation();
  const ask = async () => {
    made = [];
    expect(JSON.parse(await lists.page(all, { limit: 3 }, viewer))).toEqual(await truth(all, 3));
    return made;
  };
  expect(await ask()).toEqual([row.id]);
  expect(await ask()).toEqual([]);
  await opened.store.events.append(row.id, [message("hello")]);
  expect(await ask()).toEqual([row.id]);
});

test("every write is visible in every page at once", async () => {
  const { store } = opened;
  const shared = newId();
  await addSandbox(shared);
  const ids = new Set<string>();
  const pick = () => [...ids][Math.floor(random() * ids.size)]!;
  const random = seeded(7);
  const add = async (parentId: string | null) => {
    const sandboxId = random() < 0.5 ? shared : newId();
    const createdAt = Math.floor(random() * 100);
    ids.add((await addConversation({ sandboxId, createdAt, parentId, title: null })).id);
  };
  for (let index = 0; index < 10; index++) await add(null);
  const writes: (() => Promise<unknown>)[] = [
    () => add(null),
    () => add(pick()),
    () => store.events.append(pick(), [message("hello")]),
    () =>
      store.events.append(pick(), [stateUpdate("execution_status", random() < 0.5 ? "running" : "finished")]),
    () => store.conversations.update(pick(), { title: random() < 0.5 ? "One of these" : "another" }),
    () =>
      store.conversations.update(pick(), {
        config: { tags: { a: String(random()) }, selectedRepository: "a/b" },
      }),
    () => store.conversations.update(pick(), { config: { llmModel: null } }),
    async () => {
      const id = pick();
      ids.delete(id);
      await store.conversations.remove(id);
    },
    () => store.sandboxes.update(shared, { status: random() < 0.5 ? "RUNNING" : "PAUSED" }),
    async () => {
      await store.sandboxes.remove(shared);
      if (random() < 0.8) await addSandbox(shared);
    },
    () => settings.update(userId, { llm_model: `demo/${random()}` }),
  ];
  const now = Date.now();
  const filters: ConversationFilter[] = [
    all,
    { ...all, includeSubConversations: false },
    { ...all, titleContains: "these" },
    { ...all, selectedRepository: "a/b" },
    { ...all, updatedAtGte: now - 1_000 },
    { ...all, updatedAtLt: now - 1_000 },
    { ...all, userId: "another" },
  ];
  for (let round = 0; round < 120; round++) {
    if (!(await store.sandboxes.get(shared))) await addSandbox(shared);
    if (ids.size < 5) await add(null);
    await writes[Math.floor(random() * writes.length)]!();
    for (const filter of filters)
      expect(JSON.parse(await lists.page(filter, { limit: 8 }, viewer))).toEqual(await truth(filter, 8));
  }
});

/** Numbers from 0 to 1 that are the same in each run. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}
