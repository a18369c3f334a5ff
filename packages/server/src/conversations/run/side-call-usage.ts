import { isDeepStrictEqual } from "node:util";
import { addUsage, stateRecord, type UsageMetrics, withUsage } from "@sandpiper/agent/loop/records";
import { PlatformError } from "@sandpiper/core/errors";
import type { ModelResponse } from "@sandpiper/models/model";
import type { Stats } from "@sandpiper/wire";
import type { EventLog } from "../../store/event-log.ts";

/**
 * Metrics of side calls, such as the one for a title. During a run only the run writes metrics, so
 * that no concurrent write is lost; the rest is written afterwards. Pending metrics count until
 * they are durable, so that concurrent calls add up.
 */
export class SideCallUsage {
  readonly #events: Pick<EventLog, "append">;
  readonly #pending = new Map<string, Map<string, UsageMetrics>>();

  constructor(events: Pick<EventLog, "append">) {
    this.#events = events;
  }

  hasPending(conversationId: string): boolean {
    return (this.#pending.get(conversationId)?.size ?? 0) > 0;
  }

  /**
   * Forgets the pending usage, whose metrics are older than the other node's ownership of the
   * conversation.
   */
  forget(conversationId: string): void {
    this.#pending.delete(conversationId);
  }

  /** Pending metrics by usage id; the same map until all of it is written. */
  getPending(conversationId: string): ReadonlyMap<string, UsageMetrics> {
    return this.#getPending(conversationId);
  }

  /** Adds a call to the pending metrics; `stats` are the metrics of the log. */
  add(conversationId: string, usageId: string, model: string, response: ModelResponse, stats: Stats): void {
    const waiting = this.#getPending(conversationId);
    const before = withUsage(stats, waiting);
    waiting.set(usageId, addUsage(before, usageId, model, response, null).usage_to_metrics[usageId]!);
  }

  /** Replaces the metrics of a usage id. */
  set(conversationId: string, usageId: string, metrics: UsageMetrics): void {
    this.#getPending(conversationId).set(usageId, metrics);
  }

  /**
   * Writes pending metrics that the log does not have. Throws what `append` throws; they stay
   * pending, unless the conversation is deleted.
   */
  async write(conversationId: string, stats: Stats): Promise<void> {
    const waiting = this.#getPending(conversationId);
    const written = [...waiting];
    try {
      if (!written.every(([id, metrics]) => isDeepStrictEqual(stats.usage_to_metrics[id], metrics)))
        await this.#events.append(conversationId, [stateRecord("stats", withUsage(stats, waiting))]);
      for (const [id, metrics] of written) if (waiting.get(id) === metrics) waiting.delete(id);
    } catch (error) {
      if (error instanceof PlatformError && error.code === "ConversationNotFound") waiting.clear();
      throw error;
    } finally {
      if (waiting.size === 0 && this.#pending.get(conversationId) === waiting)
        this.#pending.delete(conversationId);
    }
  }

  #getPending(conversationId: string): Map<string, UsageMetrics> {
    const usage = this.#pending.get(conversationId) ?? new Map<string, UsageMetrics>();
    this.#pending.set(conversationId, usage);
    return usage;
  }
}
