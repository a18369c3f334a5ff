import { selectPart } from "@sandpiper/agent/condenser/select-part";
import { View } from "@sandpiper/agent/prompt/view";
import type { Tool } from "@sandpiper/agent/tools/tool";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { ModelMessage } from "@sandpiper/models/model";
import type { ActionEvent } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import type { Toolsets } from "../agent/toolset.ts";
import { LogFollower } from "../log/follower.ts";
import { emptyFacts } from "../project/project-context.ts";
import type { ActiveRuns } from "./active-runs.ts";
import { fullState } from "./full-state.ts";
import type { Run } from "./run.ts";

export interface HistoriesDeps {
  store: Pick<Store, "conversations" | "conversationSecrets" | "events">;
  agents: AgentConfigResolver;
  knowledge: Pick<ProjectKnowledge, "activatedSkills" | "contexts">;
  toolsets: Pick<Toolsets, "forConversation">;
  runs: {
    get(conversationId: string): Pick<Run, "follower" | "progress"> | undefined;
    queuePosition: ActiveRuns["queuePosition"];
  };
  scheduler: TurnScheduler;
}

/**
 * Reads the state and history of conversations: from the follower of the run, or else from the log.
 */
export class Histories {
  readonly #deps: HistoriesDeps;

  constructor(deps: HistoriesDeps) {
    this.#deps = deps;
  }

  fullState(row: ConversationRow): Record<string, unknown> {
    const { store, knowledge, agents } = this.#deps;
    const { follower, progress } = this.#deps.runs.get(row.id) ?? {};
    return fullState({
      row,
      state: follower?.isReady ? follower.state : undefined,
      events: store.events,
      agents,
      activatedSkills: knowledge.activatedSkills(row.id),
      facts: knowledge.contexts.get(row.id).folded ?? emptyFacts,
      progress,
      queuePosition: this.#deps.runs.queuePosition(row),
      secretNames: Object.keys(store.conversationSecrets.get(row.id)?.values ?? {}),
    });
  }

  /** The history in the model's form, up to its last complete answer. */
  async promptHistory(row: Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">): Promise<{
    system: string[];
    messages: ModelMessage[];
    tools: readonly Tool[];
  }> {
    const { view, ready } = this.#getFollower(row.id);
    await ready;
    return {
      system: [...view.system],
      messages: view.complete(),
      tools: this.#deps.toolsets.forConversation(row).tools,
    };
  }

  /** Whether the history is long enough for a summary. */
  async canCondense(row: Pick<ConversationRow, "id" | "userId" | "config">): Promise<boolean> {
    const { view, ready } = this.#getFollower(row.id);
    await ready;
    return selectPart(view, { keepFirst: this.#deps.agents.condenser(row)?.keepFirst ?? 0 }) !== undefined;
  }

  /** Actions without a result, in order. */
  openActions(conversationId: string): ActionEvent[] {
    if (!this.#deps.store.conversations.get(conversationId)) return [];
    const follower = this.#getFollower(conversationId);
    follower.finish();
    return [...follower.state.openActions.values()];
  }

  /** A follower created here is a snapshot: it does not receive new records. */
  #getFollower(conversationId: string): LogFollower {
    const current = this.#deps.runs.get(conversationId);
    if (current) return current.follower;
    const follower = new LogFollower(
      { events: this.#deps.store.events, scheduler: this.#deps.scheduler },
      conversationId,
      new View(),
    );
    follower.close();
    return follower;
  }
}
