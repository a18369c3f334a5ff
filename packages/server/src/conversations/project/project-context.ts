import { isDeepStrictEqual } from "node:util";
import type { HookConfig } from "@sandpiper/agent/hooks/config";
import type { Skill } from "@sandpiper/agent/skills/skill";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import { LRUCache } from "lru-cache";
import type { Store } from "../../store/store.ts";
import type { FoldedFacts } from "../log/state.ts";

/** What a conversation knows of its project: gathered at its start and kept beside it, so that a restart knows the same. */
export interface ProjectContext {
  skills: Skill[];
  /** What the start has to tell the agent, such as a setup script that failed. */
  notes: string[];
  /** MCP servers of its plugins, as their files name them. */
  mcpServers?: Record<string, unknown>;
  /** Names of skills that came after the prompt: the next message tells the agent of them. */
  late?: string[];
  /** Kinds of sub-agents that it describes. */
  agents?: { name: string; description: string }[];
  /** Folders of its plugins inside the sandbox. */
  plugins?: string[];
  /** Hooks of the project and of its plugins; undefined: nobody has looked for those of the project. */
  hooks?: HookConfig;
  pluginHooks?: HookConfig;
  /** Sentences about what could not be used, which nobody has read yet. */
  problems?: string[];
  /** Names of tools of which the agent was told that there are none. */
  missedTools?: string[];
  /** What the log tells of a conversation that sleeps. */
  folded?: FoldedFacts;
}

/** Those of a conversation in which nothing of that has happened. */
export const emptyFacts: FoldedFacts = {
  pathRules: [],
  invokedSkills: [],
  blockedActions: {},
  blockedMessages: {},
};

const nothing: ProjectContext = { skills: [], notes: [] };

/** Bounds of what is kept of them in memory. */
const maxKept = { max: 200, maxSize: 32 * 2 ** 20 };

/** The stored contexts of conversations. Those that were read are kept for a while: each step asks for them. */
export class ProjectContexts {
  readonly #contexts: Store["contexts"];
  readonly #known = new LRUCache<string, ProjectContext>(maxKept);
  readonly #changes = new KeyedMutex();

  constructor(contexts: Store["contexts"]) {
    this.#contexts = contexts;
  }

  get(id: string): ProjectContext {
    const known = this.#known.get(id);
    if (known) return known;
    const stored = this.#contexts.get(id)?.document as ProjectContext | null | undefined;
    // That of a conversation that is about to be stored may come by another way.
    return stored ? this.#keep(id, stored) : nothing;
  }

  /** Keeps what the log tells, where it is not kept already. */
  async saveFacts(id: string, folded: FoldedFacts): Promise<void> {
    const before = this.get(id).folded ?? emptyFacts;
    if (!isDeepStrictEqual(before, folded))
      await this.change(id, (context) => ({ ...context, folded: structuredClone(folded) }));
  }

  /** Changes the context of a conversation, one change after the other. Throws ConversationNotFound. */
  async change(id: string, change: (before: ProjectContext) => ProjectContext): Promise<void> {
    await this.#changes.run(id, async () => {
      const context = change(this.get(id));
      await this.#contexts.put(id, context);
      this.#keep(id, context);
    });
  }

  #keep(id: string, context: ProjectContext): ProjectContext {
    const size = context.skills.reduce((sum, { content }) => sum + content.length + 500, 2_000);
    this.#known.set(id, context, { size });
    return context;
  }
}

/** A stored context for a conversation that is made of another one. */
export function toForkContext(document: unknown): unknown {
  const {
    folded: _folded,
    problems: _problems,
    missedTools: _missed,
    ...rest
  } = (document ?? {}) as Partial<ProjectContext>;
  return document === null ? null : rest;
}
