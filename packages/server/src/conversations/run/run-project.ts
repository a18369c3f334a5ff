import type { Hooks } from "@sandpiper/agent/hooks/hooks";
import type { RunHooksDeps } from "@sandpiper/agent/hooks/project-hooks";
import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import type { Tool } from "@sandpiper/agent/tools/tool";
import type { Action, NewEvent, TextContent } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import type { Custody } from "../custody.ts";
import type { FoldedFacts } from "../log/state.ts";
import type { HookSessions } from "./hook-sessions.ts";
import type { Restrictions } from "./restrictions.ts";

export interface RunProjectDeps {
  knowledge: Pick<ProjectKnowledge, "systemPrompt" | "contexts" | "rulesFor">;
  hooks: Pick<HookSessions, "forRun">;
  restrictions: Pick<Restrictions, "notices">;
  custody: Pick<Custody, "requireOwner">;
}

/** The project of one run: what the prompt says about it, its rules and its hooks. */
export class RunProject {
  readonly #deps: RunProjectDeps;
  readonly #row: ConversationRow;

  constructor(deps: RunProjectDeps, row: ConversationRow) {
    this.#deps = deps;
    this.#row = row;
  }

  /** The first event of a conversation that begins without a message. */
  systemPrompt(tools: readonly Tool[]): Promise<NewEvent> {
    return this.#deps.knowledge.systemPrompt(this.#row, tools);
  }

  /** The rules for the files that an action touched, except the known ones. */
  rulesFor(action: Action, known: ReadonlySet<string>): Promise<TextContent[]> {
    return this.#deps.knowledge.rulesFor(this.#row, action, known);
  }

  /** What the user should know about parts of the project that may not work yet. */
  notices(): Promise<NewRecord[]> {
    return this.#deps.restrictions.notices(this.#row);
  }

  openHooks(run: RunHooksDeps): Hooks {
    return this.#deps.hooks.forRun(this.#row, run);
  }

  /**
   * Stores the facts that clients see while the conversation sleeps. Throws OwnershipLost when
   * another node owns the conversation, because that node may have stored newer facts.
   */
  async keepFacts(facts: FoldedFacts): Promise<void> {
    this.#deps.custody.requireOwner(this.#row.sandboxId);
    await this.#deps.knowledge.contexts.saveFacts(this.#row.id, facts);
  }
}
