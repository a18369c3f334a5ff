import type { Store } from "../../store/store.ts";
import type { Hub } from "../log/hub.ts";
import type { Histories } from "./histories.ts";
import { MissedEnds } from "./missed-ends.ts";

/**
 * Shortest time between the answer to a run call and the closing state of the run, ms. The Python
 * client waits for the closing state only after it has read the answer, and would miss an earlier
 * one.
 */
const answerReadMs = 100;

/** Run calls of a conversation that are open or were just answered. */
interface RunCalls {
  open: number;
  timer: NodeJS.Timeout | undefined;
  /** The number of waits for the readers of answers; only the last one ends. */
  waits: number;
  /** Resolves when the end that waits for the calls is sent; undefined without one. */
  end: PromiseWithResolvers<void> | undefined;
}

function newCalls(): RunCalls {
  return { open: 0, waits: 0, timer: undefined, end: undefined };
}

export interface AnnouncementsDeps {
  store: Pick<Store, "conversations">;
  hub: Pick<Hub, "followers" | "publishEvent" | "settle" | "echo" | "lost">;
  histories: Pick<Histories, "fullState">;
}

/**
 * Tells followers what no record tells them: changed fields, and the end of runs. A client that
 * waits for a run takes every full state that is not `running` for the end of that run, so there is
 * one after each run, and no other (docs/understand/internals/runs.md, "The end of a run").
 */
export class Announcements {
  readonly #deps: AnnouncementsDeps;
  readonly #calls = new Map<string, RunCalls>();
  readonly #missed = new MissedEnds();
  #closed = false;

  constructor(deps: AnnouncementsDeps) {
    this.#deps = deps;
  }

  /** Sends a changed field; null for a removed one. */
  announceField(conversationId: string, key: string, value: unknown): void {
    this.#deps.hub.publishEvent(conversationId, {
      kind: "ConversationStateUpdateEvent",
      source: "environment",
      key,
      value,
    });
  }

  /** Sends a changed field of the full state with its current value. */
  announceCurrent(conversationId: string, key: "agent" | "agent_state" | "secret_registry"): void {
    const value = this.#getFullState(conversationId)?.[key];
    if (value !== undefined) this.announceField(conversationId, key, value);
  }

  /** Sends the full state after a run: now, or when the clients of its run calls can expect it. */
  announceEnd(conversationId: string): void {
    this.#deps.hub.lost.noteEnd(conversationId);
    const calls = this.#calls.get(conversationId);
    if (calls) calls.end ??= Promise.withResolvers();
    else this.#sendEnd(conversationId);
  }

  /** Resolves when no end of a run waits to be sent, before new work. */
  async ended(conversationId: string): Promise<void> {
    await this.#calls.get(conversationId)?.end?.promise;
    this.#missed.forget(conversationId);
  }

  /** Notes what a client reads: one that has missed the end of its run gets it again. */
  noteRead(conversationId: string, what: "state" | "events"): void {
    if (what === "events") this.#missed.forget(conversationId);
    else if (this.#missed.noteStateRead(conversationId)) this.#sendFullState(conversationId);
  }

  /**
   * Does the work of a run call. Settles only when no follower still has an earlier state to read:
   * the caller would take that state for the end of its run.
   */
  async duringRunCall<Result>(conversationId: string, work: () => Promise<Result>): Promise<Result> {
    await this.ended(conversationId);
    const calls = this.#calls.get(conversationId) ?? newCalls();
    this.#calls.set(conversationId, calls);
    calls.open++;
    calls.waits++;
    clearTimeout(calls.timer);
    try {
      return await work();
    } finally {
      await this.#deps.hub.settle(conversationId);
      calls.open--;
      if (calls.open === 0 && !this.#closed) this.#finishLater(conversationId, calls);
    }
  }

  close(): void {
    this.#closed = true;
    for (const { timer, end } of this.#calls.values()) {
      clearTimeout(timer);
      end?.resolve();
    }
    this.#calls.clear();
  }

  /**
   * Finishes when the clients have had time to read the answers, and have answered two pings
   * behind them: on a busy machine that takes as long as their threads wait for a processor.
   */
  #finishLater(conversationId: string, calls: RunCalls): void {
    const wait = ++calls.waits;
    const echo = this.#deps.hub.echo(conversationId);
    calls.timer = setTimeout(async () => {
      await echo;
      if (calls.waits === wait && !this.#closed) this.#finish(conversationId, calls);
    }, answerReadMs);
  }

  #finish(conversationId: string, calls: RunCalls): void {
    this.#calls.delete(conversationId);
    if (calls.end) this.#sendEnd(conversationId);
    calls.end?.resolve();
  }

  #sendEnd(conversationId: string): void {
    if (this.#deps.hub.followers(conversationId) > 0) this.#missed.noteEnd(conversationId);
    this.#sendFullState(conversationId);
  }

  /** Sends nothing when new work has started: its end follows. */
  #sendFullState(conversationId: string): void {
    const state = this.#getFullState(conversationId);
    if (state && state.execution_status !== "running")
      this.announceField(conversationId, "full_state", state);
  }

  /** Undefined when nobody follows the conversation, and after its deletion. */
  #getFullState(conversationId: string): Record<string, unknown> | undefined {
    const { store, hub, histories } = this.#deps;
    const row = hub.followers(conversationId) > 0 ? store.conversations.get(conversationId) : undefined;
    return row && histories.fullState(row);
  }
}
