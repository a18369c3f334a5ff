import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { PluginSpec } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import { requireLocal } from "../lookup.ts";
import type { PluginFetcher } from "../project/plugin-parts.ts";
import type { Announcements } from "../run/announcements.ts";

export interface PluginAdditionsDeps {
  store: Pick<Store, "conversations" | "events">;
  plugins: Pick<PluginFetcher, "fetch">;
  knowledge: Pick<ProjectKnowledge, "addPlugins">;
  announcements: Pick<Announcements, "announceCurrent">;
}

/** Adds plugins to existing conversations; they apply from the next message. */
export class PluginAdditions {
  readonly #deps: PluginAdditionsDeps;
  /** Serialises the additions to a conversation. */
  readonly #changes = new KeyedMutex();

  constructor(deps: PluginAdditionsDeps) {
    this.#deps = deps;
  }

  /** Throws what `PluginFetcher.fetch` throws, ConversationNotFound and ConversationExternal. */
  async add(row: ConversationRow, plugin: PluginSpec): Promise<void> {
    requireLocal(row);
    const { store, plugins, knowledge, announcements } = this.#deps;
    const { id, userId, sandboxId, config } = row;
    await this.#changes.run(id, async () => {
      const parts = await plugins.fetch({ userId, sandboxId, workingDir: config.workingDir }, [plugin]);
      try {
        await knowledge.addPlugins(id, parts, { late: (await store.events.lastSeq(id)) > 0 });
      } catch (error) {
        throw (await store.conversations.get(id)) ? error : new PlatformError("ConversationUnknown");
      }
    });
    announcements.announceCurrent(id, "agent");
  }
}
