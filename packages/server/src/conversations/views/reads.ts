import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { AppConversation, AppConversationStartTask, ConversationInfo } from "@sandpiper/wire";
import { hexId } from "@sandpiper/wire";
import type {
  ConversationFilter,
  ConversationPage,
  ConversationRow,
} from "../../store/conversation-store.ts";
import type { StartTaskRow, StartTaskStore } from "../../store/start-task-store.ts";
import type { Store } from "../../store/store.ts";
import type { Settings, Viewer } from "../../users/api.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import { conversationModel } from "../agent/agent-config.ts";
import type { ConversationStarts } from "../api.ts";
import type { Histories } from "../run/histories.ts";
import { ListCache } from "./list-cache.ts";
import { presentConversation, presentInfo, presentStartTask } from "./present.ts";

export interface ReadsDeps {
  store: Pick<Store, "conversations" | "version">;
  sandboxes: Pick<Sandboxes, "get">;
  settings: Settings;
  agents: AgentConfigResolver;
  histories: Pick<Histories, "fullState">;
  publicUrl: () => string;
}

/** Lists and reads conversations for clients; see `Conversations` for each method. */
export class ConversationReads {
  readonly #deps: ReadsDeps;
  readonly #lists: ListCache;

  constructor(deps: ReadsDeps) {
    this.#deps = deps;
    this.#lists = new ListCache({ store: deps.store, present: (rows, viewer) => this.present(rows, viewer) });
  }

  async search(
    filter: ConversationFilter,
    page: PageRequest,
    viewer: Viewer,
  ): Promise<PageResult<AppConversation>> {
    const { items, nextPageId } = await this.rows(filter, page);
    return { items: await this.present(items, viewer), nextPageId };
  }

  searchJson(filter: ConversationFilter, page: PageRequest, viewer: Viewer): Promise<string> {
    return this.#lists.page(filter, page, viewer);
  }

  rows(filter: ConversationFilter, page: ConversationPage): Promise<PageResult<ConversationRow>> {
    return this.#deps.store.conversations.search(filter, page);
  }

  count(filter: ConversationFilter): Promise<number> {
    return this.#deps.store.conversations.count(filter);
  }

  async batch(viewer: Viewer, ids: readonly (string | undefined)[]): Promise<(AppConversation | null)[]> {
    const rows = await Promise.all(ids.map(async (id) => (id ? this.get(viewer.userId, id) : undefined)));
    const known = rows.filter((row) => row !== undefined);
    const presented = new Map((await this.present(known, viewer)).map((item) => [item.id, item]));
    return rows.map((row) => (row ? (presented.get(hexId(row.id)) ?? null) : null));
  }

  async get(userId: string, id: string): Promise<ConversationRow | undefined> {
    const row = await this.#deps.store.conversations.get(id);
    return row?.userId === userId ? row : undefined;
  }

  async info(row: ConversationRow, { skills = false } = {}): Promise<ConversationInfo> {
    const { store, sandboxes, agents, histories } = this.#deps;
    const [sandbox, children, state] = await Promise.all([
      sandboxes.get(row.userId, row.sandboxId),
      store.conversations.listChildren([row.id]),
      histories.fullState(row),
    ]);
    return presentInfo({ row, state, children: children.get(row.id) ?? [], sandbox, agents, skills });
  }

  /** Keeps the order of the rows. */
  async present(rows: readonly ConversationRow[], { source }: Viewer): Promise<AppConversation[]> {
    const { store, sandboxes, settings, publicUrl } = this.#deps;
    // Clients treat every listed child as a conversation that the user opened, so sub-agents are
    // left out.
    const children = await store.conversations.listChildren(
      rows.map((row) => row.id),
      { subAgents: false },
    );
    const present = async (row: ConversationRow): Promise<AppConversation> => {
      const [sandbox, { model }] = await Promise.all([
        sandboxes.get(row.userId, row.sandboxId),
        conversationModel(row, settings),
      ]);
      const facts = { sandbox, children: children.get(row.id) ?? [], model };
      return presentConversation(row, { ...facts, publicUrl: publicUrl(), source });
    };
    return Promise.all(rows.map(present));
  }
}

/** Start tasks as clients read them (app-server.md section 2.4). */
export function startTaskReads(tasks: StartTaskStore, publicUrl: () => string): ConversationStarts["tasks"] {
  const present = (row: StartTaskRow): AppConversationStartTask => presentStartTask(row, publicUrl());
  return {
    async search(filter, page) {
      const { items, nextPageId } = await tasks.search(filter, page);
      return { items: items.map(present), nextPageId };
    },
    count: (filter) => tasks.count(filter),
    async batch(userId, ids) {
      const rows = await Promise.all(ids.map(async (id) => (id ? tasks.get(id) : undefined)));
      return rows.map((row) => (row?.userId === userId ? present(row) : null));
    },
  };
}
