import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
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
  /**
   * Serialises the frames of a conversation: clients get them in the order of the calls, however
   * long the reads of each call take.
   */
  readonly #sends = new KeyedMutex();
  #closed = false;

  constructor(deps: AnnouncementsDeps) {
    this.#deps = deps;
  }

  /** Sends a changed field; null for a removed one. */
  announceField(conversationId: string, key: string, value: unknown): void {
    this.#send(conversationId, async () => ({ [key]: value }));
  }

  /** Sends a changed field of the full state with its current value. */
  announceCurrent(conversationId: string, key: "agent" | "agent_state" | "secret_registry"): void {
    this.#send(conversationId, async () => {
      const value = (await this.#getFullState(conversationId))?.[key];
      return value === undefined ? {} : { [key]: value };
    });
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
    await this.#sends.idle(conversationId);
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
      await this.#sends.idle(conversationId);
      await this.#deps.hub.settle(conversationId);
      calls.open--;
      const isKnown = this.#calls.get(conversationId) === calls;
      if (calls.open === 0 && isKnown && !this.#closed) this.#finishLater(conversationId, calls);
    }
  }

  /** Drops the frames that wait for the clients of a conversation that another node continues. */
  forget(conversationId: string): void {
    const calls = this.#calls.get(conversationId);
    clearTimeout(calls?.timer);
    calls?.end?.resolve();
    this.#calls.delete(conversationId);
    this.#missed.forget(conversationId);
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
    this.#send(conversationId, async () => {
      const state = await this.#getFullState(conversationId);
      return state && state.execution_status !== "running" ? { full_state: state } : {};
    });
  }

  /**
   * Sends the fields that `read` gives. Sends nothing when `read` fails, because the next frame has
   * the same fields.
   */
  #send(conversationId: string, read: () => Promise<Record<string, unknown>>): void {
    const { hub } = this.#deps;
    if (hub.followers(conversationId) === 0) return;
    const send = async () => {
      for (const [key, value] of Object.entries(await read()))
        hub.publishEvent(conversationId, {
          kind: "ConversationStateUpdateEvent",
          source: "environment",
          key,
          value,
        });
    };
    this.#sends.run(conversationId, send).catch(() => {});
  }

  /** Reads the row of the conversation; undefined after its deletion. */
  async #getFullState(conversationId: string): Promise<Record<string, unknown> | undefined> {
    const { store, histories } = this.#deps;
    const row = await store.conversations.get(conversationId);
    return row && histories.fullState(row);
  }
}
