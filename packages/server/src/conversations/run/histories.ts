import { selectPart } from "@sandpiper/agent/condenser/select-part";
import { View } from "@sandpiper/agent/prompt/view";
import type { Tool } from "@sandpiper/agent/tools/tool";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { ModelMessage } from "@sandpiper/models/model";
import type { ActionEvent, Stats } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import type { Toolsets } from "../agent/toolset.ts";
import { LogFollower } from "../log/follower.ts";
import { emptyFacts } from "../project/project-context.ts";
import type { ActiveRuns } from "./active-runs.ts";
import { fullState, storedStats } from "./full-state.ts";
import type { Run } from "./run.ts";

export interface HistoriesDeps {
  store: Pick<Store, "conversationSecrets" | "events">;
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

  async fullState(row: ConversationRow): Promise<Record<string, unknown>> {
    const { store, knowledge, agents, runs } = this.#deps;
    const [activatedSkills, context, secrets] = await Promise.all([
      knowledge.activatedSkills(row.id),
      knowledge.contexts.get(row.id),
      store.conversationSecrets.get(row.id),
    ]);
    return fullState({
      row,
      run: runs.get(row.id),
      events: store.events,
      agents,
      activatedSkills,
      facts: context.folded ?? emptyFacts,
      queuePosition: () => runs.queuePosition(row),
      secretNames: Object.keys(secrets?.values ?? {}),
    });
  }

  /** The metrics of a conversation by usage id. */
  stats(row: ConversationRow): Stats {
    const { follower } = this.#deps.runs.get(row.id) ?? {};
    return follower?.isReady ? follower.state.stats : storedStats(row);
  }

  /** The history in the model's form, up to its last complete answer. */
  async promptHistory(row: Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">): Promise<{
    system: string[];
    messages: ModelMessage[];
    tools: readonly Tool[];
  }> {
    const { view, ready } = this.#getFollower(row.id);
    const [tools] = await Promise.all([this.#deps.toolsets.forConversation(row).tools, ready]);
    return { system: [...view.system], messages: view.complete(), tools };
  }

  /** Whether the history is long enough for a summary. */
  async canCondense(row: Pick<ConversationRow, "id" | "userId" | "config">): Promise<boolean> {
    const { view, ready } = this.#getFollower(row.id);
    const [options] = await Promise.all([this.#deps.agents.condenser(row), ready]);
    return selectPart(view, { keepFirst: options?.keepFirst ?? 0 }) !== undefined;
  }

  /** Actions without a result, in order. */
  async openActions(conversationId: string): Promise<ActionEvent[]> {
    const follower = this.#getFollower(conversationId);
    await follower.ready;
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
