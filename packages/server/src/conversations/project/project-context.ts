import { isDeepStrictEqual } from "node:util";
import type { HookConfig } from "@sandpiper/agent/hooks/config";
import type { Skill } from "@sandpiper/agent/skills/skill";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import { LRUCache } from "lru-cache";
import type { Store } from "../../store/store.ts";
import type { FoldedFacts } from "../log/state.ts";

/** Facts about a conversation's project, collected at its start and stored for later processes. */
export interface ProjectContext {
  skills: Skill[];
  /** Notes of the start for the agent, such as a failed setup script. */
  notes: string[];
  /** MCP servers of its plugins, unchecked. */
  mcpServers?: Record<string, unknown>;
  /** Names of skills that were found after the prompt was written; the next message adds them. */
  late?: string[];
  /** Sub-agents that the project defines. */
  agents?: { name: string; description: string }[];
  /** Folders of its plugins inside the sandbox. */
  plugins?: string[];
  /** Hooks of the project; undefined until they were loaded. */
  hooks?: HookConfig;
  pluginHooks?: HookConfig;
  /** Sentences about unusable parts that were not reported yet. */
  problems?: string[];
  /** Digests of behaviours whose restriction was reported. */
  noticed?: string[];
  /** Names of unknown tools that were reported. */
  missedTools?: string[];
  /** Facts folded from the log of a conversation at rest. */
  folded?: FoldedFacts;
}

export const emptyFacts: FoldedFacts = {
  pathRules: [],
  invokedSkills: [],
  blockedActions: {},
  blockedMessages: {},
};

const emptyContext: ProjectContext = { skills: [], notes: [] };

/** The stored contexts of conversations, cached because each step reads them. */
export class ProjectContexts {
  readonly #contexts: Store["contexts"];
  readonly #cache = new LRUCache<string, ProjectContext>({ max: 200, maxSize: 32 * 2 ** 20 });
  readonly #changes = new KeyedMutex();

  constructor(contexts: Store["contexts"]) {
    this.#contexts = contexts;
  }

  /** The context; an empty one when none is stored. */
  async get(id: string): Promise<ProjectContext> {
    // Reads and changes run one after another, so that the cache does not keep what a change has
    // replaced.
    return this.#cache.get(id) ?? (await this.#changes.run(id, () => this.#read(id)));
  }

  /** Forgets all cached contexts, because another node may have changed them. */
  forget(): void {
    this.#cache.clear();
  }

  /** Stores folded facts unless they are unchanged. */
  async saveFacts(id: string, folded: FoldedFacts): Promise<void> {
    const before = (await this.get(id)).folded ?? emptyFacts;
    if (!isDeepStrictEqual(before, folded))
      await this.change(id, (context) => ({ ...context, folded: structuredClone(folded) }));
  }

  /**
   * Changes a context, in the order of the calls. Calls `change` again when another node has
   * changed the context meanwhile. Throws ConversationNotFound, StorageBusy.
   */
  async change(id: string, change: (before: ProjectContext) => ProjectContext): Promise<void> {
    await this.#changes.run(id, async () => {
      const known = this.#cache.get(id);
      const changed = (document: unknown) => change((document ?? emptyContext) as ProjectContext);
      this.#remember(id, await this.#contexts.change(id, changed, known));
    });
  }

  async #read(id: string): Promise<ProjectContext> {
    const cached = this.#cache.get(id);
    if (cached) return cached;
    const stored = (await this.#contexts.get(id))?.document as ProjectContext | null | undefined;
    // The absence of a context is not cached: a new conversation may store its context.
    return stored ? this.#remember(id, stored) : emptyContext;
  }

  #remember(id: string, context: ProjectContext): ProjectContext {
    const size = context.skills.reduce((sum, { content }) => sum + content.length + 500, 2_000);
    this.#cache.set(id, context, { size });
    return context;
  }
}

/** A stored context without the facts that a fork must not inherit. */
export function toForkContext(document: unknown): unknown {
  const {
    folded: _folded,
    problems: _problems,
    missedTools: _missed,
    noticed: _noticed,
    ...rest
  } = (document ?? {}) as Partial<ProjectContext>;
  return document === null ? null : rest;
}
