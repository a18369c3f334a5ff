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

  search(filter: ConversationFilter, page: PageRequest, viewer: Viewer): PageResult<AppConversation> {
    const { items, nextPageId } = this.rows(filter, page);
    return { items: this.present(items, viewer), nextPageId };
  }

  searchJson(filter: ConversationFilter, page: PageRequest, viewer: Viewer): string {
    return this.#lists.page(filter, page, viewer);
  }

  rows(filter: ConversationFilter, page: ConversationPage): PageResult<ConversationRow> {
    return this.#deps.store.conversations.search(filter, page);
  }

  count(filter: ConversationFilter): number {
    return this.#deps.store.conversations.count(filter);
  }

  batch(viewer: Viewer, ids: readonly (string | undefined)[]): (AppConversation | null)[] {
    const rows = ids.map((id) => (id ? this.get(viewer.userId, id) : undefined));
    const presented = new Map(
      this.present(
        rows.filter((row) => row !== undefined),
        viewer,
      ).map((item) => [item.id, item]),
    );
    return rows.map((row) => (row ? (presented.get(hexId(row.id)) ?? null) : null));
  }

  get(userId: string, id: string): ConversationRow | undefined {
    const row = this.#deps.store.conversations.get(id);
    return row?.userId === userId ? row : undefined;
  }

  info(row: ConversationRow, { skills = false } = {}): ConversationInfo {
    const { store, sandboxes, agents, histories } = this.#deps;
    const sandbox = sandboxes.get(row.userId, row.sandboxId);
    const children = store.conversations.listChildren([row.id]).get(row.id) ?? [];
    return presentInfo({ row, state: histories.fullState(row), children, sandbox, agents, skills });
  }

  /** Keeps the order of the rows. */
  present(rows: readonly ConversationRow[], { source }: Viewer): AppConversation[] {
    const { store, sandboxes, settings, publicUrl } = this.#deps;
    // Clients treat every listed child as a conversation that the user opened, so sub-agents are
    // left out.
    const children = store.conversations.listChildren(
      rows.map((row) => row.id),
      { subAgents: false },
    );
    return rows.map((row) =>
      presentConversation(row, {
        sandbox: sandboxes.get(row.userId, row.sandboxId),
        children: children.get(row.id) ?? [],
        model: conversationModel(row, settings).model,
        publicUrl: publicUrl(),
        source,
      }),
    );
  }
}

/** Start tasks as clients read them (app-server.md section 2.4). */
export function startTaskReads(tasks: StartTaskStore, publicUrl: () => string): ConversationStarts["tasks"] {
  const present = (row: StartTaskRow): AppConversationStartTask => presentStartTask(row, publicUrl());
  return {
    search(filter, page) {
      const { items, nextPageId } = tasks.search(filter, page);
      return { items: items.map(present), nextPageId };
    },
    count: (filter) => tasks.count(filter),
    batch: (userId, ids) =>
      ids.map((id) => {
        const row = id ? tasks.get(id) : undefined;
        return row?.userId === userId ? present(row) : null;
      }),
  };
}
