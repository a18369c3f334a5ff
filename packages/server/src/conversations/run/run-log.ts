import { isDeepStrictEqual } from "node:util";
import type { LogRecord, NewRecord } from "@sandpiper/agent/loop/log-record";
import { stateRecord, type UsageMetrics, withUsage } from "@sandpiper/agent/loop/records";
import { View } from "@sandpiper/agent/prompt/view";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { RetryNotice } from "@sandpiper/models/model";
import { CallRecorder } from "@sandpiper/models/recording/recorder";
import type { Stats } from "@sandpiper/wire";
import type { RunOwner } from "../../store/event-log.ts";
import type { Store } from "../../store/store.ts";
import { isMoved } from "../custody.ts";
import { DeltaBuffer } from "../log/deltas.ts";
import { LogFollower } from "../log/follower.ts";
import type { Hub } from "../log/hub.ts";
import { readObservations } from "../log/observation-history.ts";
import { presentAgentState } from "./full-state.ts";

export interface RunLogDeps {
  store: Pick<Store, "conversations" | "events">;
  scheduler: TurnScheduler;
  hub: Hub;
  /**
   * Returns the owner and epoch that appends carry. Throws OwnershipLost when another node owns the
   * conversation.
   */
  owner(): RunOwner | undefined;
  /** The log calls this when the store says that another node owns the conversation. */
  onFenced(): void;
  /** Metrics of side calls by usage id, for the next stats record. */
  sideCallUsage: ReadonlyMap<string, UsageMetrics>;
}

/** The log of a conversation for its run: folded, appended to, and shown to its subscribers. */
export class RunLog {
  readonly follower: LogFollower;
  /** Records the model calls of the run. */
  readonly calls: CallRecorder;
  readonly scheduler: TurnScheduler;
  readonly #deps: RunLogDeps;
  readonly #id: string;
  readonly #deltas: DeltaBuffer;
  /** The log calls this when another node owns the conversation: the run must end. */
  onLost = () => {};
  /** The agent states that are being published. */
  #publishing: Promise<void> | undefined;

  /** `lastTools`: digest of the tools of the conversation's last call. */
  constructor(deps: RunLogDeps, conversationId: string, lastTools: string | undefined) {
    const { store, scheduler, hub } = deps;
    this.#deps = deps;
    this.#id = conversationId;
    this.scheduler = scheduler;
    this.#deltas = new DeltaBuffer(hub, conversationId);
    this.follower = new LogFollower({ events: store.events, scheduler }, conversationId, new View());
    const { state } = this.follower;
    this.calls = new CallRecorder({
      seq: () => state.seq,
      lastTools,
      scheduler,
    });
  }

  /** Metrics of the conversation with those of side calls that no record has. */
  get stats(): Stats {
    return withUsage(this.follower.state.stats, this.#deps.sideCallUsage);
  }

  async append(records: readonly NewRecord[]): Promise<LogRecord[]> {
    // The progress of a call never follows its result.
    if (this.#publishing) await this.#publishing;
    this.#deltas.flush();
    const all = [...this.#unwrittenMetrics(records), ...records];
    const owner = this.requireOwner();
    try {
      return await this.#deps.store.events.append(this.#id, all, {
        calls: this.calls.take(),
        ...(owner && { owner }),
      });
    } catch (error) {
      if (isMoved(error)) {
        this.onLost();
        this.#deps.onFenced();
      }
      throw error;
    }
  }

  /**
   * Returns the owner and epoch that appends carry now. Throws OwnershipLost when another node may
   * own the conversation.
   */
  requireOwner(): RunOwner | undefined {
    try {
      return this.#deps.owner();
    } catch (error) {
      this.onLost();
      throw error;
    }
  }

  /** The results of actions in the whole log. */
  observations(): ReturnType<typeof readObservations> {
    const { store, scheduler } = this.#deps;
    return readObservations({ events: store.events, scheduler }, this.#id);
  }

  addDelta(delta: Parameters<DeltaBuffer["add"]>[0]): void {
    this.#deltas.add(delta);
  }

  flushDeltas(): void {
    this.#deltas.flush();
  }

  publishRetry({ attempt, delayMs, reason }: RetryNotice): void {
    this.publishAgentState({ model_retry: { attempt, delay_ms: delayMs, reason } });
  }

  /**
   * Publishes an unstored `agent_state` frame. Clients replace the whole agent state by its value.
   */
  publishAgentState(change: Record<string, unknown>): void {
    if (this.#deps.hub.followers(this.#id) === 0) return;
    const publishing = (this.#publishing ?? Promise.resolve())
      .then(() => this.#publishAgentState(change))
      // The next state replaces one that failed.
      .catch(() => {})
      .then(() => {
        if (this.#publishing === publishing) this.#publishing = undefined;
      });
    this.#publishing = publishing;
  }

  async #publishAgentState(change: Record<string, unknown>): Promise<void> {
    const { hub, store } = this.#deps;
    const { goal } = (await store.conversations.get(this.#id))?.config ?? {};
    hub.publishEvent(this.#id, {
      kind: "ConversationStateUpdateEvent",
      source: "environment",
      key: "agent_state",
      value: { ...presentAgentState(goal), ...change },
    });
  }

  /**
   * The last records of a run include the metrics of side calls that no step has written, so that
   * clients see the final cost.
   */
  #unwrittenMetrics(records: readonly NewRecord[]): NewRecord[] {
    const { stats } = this.follower.state;
    const changes = new Map<string, unknown>();
    for (const { event } of records)
      if (event.kind === "ConversationStateUpdateEvent") changes.set(event.key, event.value);
    if ((changes.get("execution_status") ?? "running") === "running" || changes.has("stats")) return [];
    const isWritten = [...this.#deps.sideCallUsage].every(([usageId, metrics]) =>
      isDeepStrictEqual(stats.usage_to_metrics[usageId], metrics),
    );
    return isWritten ? [] : [stateRecord("stats", this.stats)];
  }
}
