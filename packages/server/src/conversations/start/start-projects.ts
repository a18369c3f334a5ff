import { abortable } from "@sandpiper/core/abortable";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Settings } from "../../users/api.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import { type ProjectBehaviours, toPlace, type UsedParts } from "../project/behaviours.ts";
import { getGitIdentity } from "../project/clone.ts";
import { prepareProject } from "./prepare-project.ts";
import type { Start } from "./start-plans.ts";
import type { TaskFeed } from "./task-feed.ts";

export interface StartProjectsDeps {
  store: Pick<Store, "conversations">;
  settings: Pick<Settings, "agent">;
  knowledge: Pick<ProjectKnowledge, "collect">;
  behaviours: Pick<ProjectBehaviours, "find" | "findFirst">;
  tasks: Pick<TaskFeed, "update">;
}

/** Prepares the projects of starts, and reads what the prompts say about them. */
export class StartProjects {
  readonly #deps: StartProjectsDeps;

  constructor(deps: StartProjectsDeps) {
    this.#deps = deps;
  }

  /** Prepares the project and reads it for the prompt. Throws what `prepareProject` throws. */
  async prepare(start: Start, sandbox: Sandbox): Promise<void> {
    const row = await this.requireRow(start);
    const { settings, store, knowledge, behaviours, tasks } = this.#deps;
    const { conversation, work, task, signal } = start;
    const preferences = await settings.agent(conversation.userId);
    const parent = conversation.parentId ? await store.conversations.get(conversation.parentId) : undefined;
    let recordUsed = async (_used: UsedParts) => {};
    const preparation = prepareProject(sandbox, {
      conversation,
      work,
      joinsProject: parent?.config.workingDir === conversation.config.workingDir,
      identity: getGitIdentity(preferences),
      fullClone: preferences.gitFullClone,
      onFetched: async (plugins) => {
        const place = { ...toPlace(row, plugins), origin: work.repository?.url };
        recordUsed = await behaviours.findFirst(place, sandbox);
      },
      onStep: async (status, detail) => {
        await this.requireRow(start);
        signal.throwIfAborted();
        await tasks.update(task.id, { status, detail });
      },
      signal,
    });
    const project = await abortable(preparation, signal);
    await knowledge.collect(row, sandbox, { ...project, late: false, onRead: recordUsed });
  }

  /** Reads the project for later messages, which may name skills of the image. Never rejects. */
  async collectLate(start: Start, sandbox: Sandbox, late: boolean): Promise<void> {
    const { store, knowledge, behaviours } = this.#deps;
    const row = await store.conversations.get(start.conversation.id);
    if (!row) return;
    const place = toPlace(row, []);
    // What was not examined is not used.
    const onRead = async (used: UsedParts) => void (await behaviours.find(place, sandbox, used));
    await knowledge.collect(row, sandbox, { plugins: [], notes: [], late, onRead }).catch(() => {});
  }

  /** The current record. Throws when the conversation or its parent was deleted in the meantime. */
  async requireRow({ conversation: { id, parentId } }: Start): Promise<ConversationRow> {
    const { conversations } = this.#deps.store;
    const row = await conversations.get(id);
    if (row && (parentId === null || (await conversations.get(parentId)))) return row;
    const what = row ? "The parent conversation" : "The conversation";
    throw new PlatformError("DeletedDuringStart", { what });
  }
}
