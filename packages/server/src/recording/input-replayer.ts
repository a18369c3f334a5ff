import { setTimeout as pause } from "node:timers/promises";
import { View } from "@sandpiper/agent/prompt/view";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { ExecutionStatus } from "@sandpiper/wire";
import type { Conversations } from "../conversations/api.ts";
import { LogFollower } from "../conversations/log/follower.ts";
import type { EventLog } from "../store/event-log.ts";
import type { Comparison } from "./comparison.ts";
import type { PlacedInput } from "./inputs.ts";
import type { ReplayModel } from "./replay-model.ts";

export interface InputReplayerDeps {
  conversations: Pick<Conversations, "commands" | "sideCalls">;
  events: EventLog;
  scheduler: TurnScheduler;
  /** The conversation of the replay. */
  id: string;
  inputs: readonly PlacedInput[];
  model: () => ReplayModel;
  comparison: Comparison;
  /** Maximum time without progress, ms. */
  idleMs: number;
}

/** Maximum delay of an input that came while the agent worked. */
const maxDelayMs = 5_000;

/** Repeats the inputs of a recorded conversation at the same points of the agent's work. */
export class InputReplayer {
  readonly #deps: InputReplayerDeps;
  readonly #follower: LogFollower;
  readonly #unfollow: () => void;
  #work = { actions: 0, results: 0 };
  /** Number of repeated inputs. */
  #madeCount = 0;
  /** The model call in progress. */
  #held: { usageId: string; index: number } | undefined;
  #isOver = false;
  #wake: () => void = () => {};

  constructor(parts: InputReplayerDeps) {
    this.#deps = parts;
    this.#follower = new LogFollower(parts, parts.id, new View());
    this.#unfollow = parts.events.follow(parts.id, (records) => {
      for (const { event } of records) {
        if (event.kind === "ActionEvent" || (event.kind === "MessageEvent" && event.source === "agent"))
          this.#work.actions++;
        if (event.kind === "ObservationEvent" || event.kind === "AgentErrorEvent") this.#work.results++;
      }
      this.#wake();
      // A move of HEAD is folded anew.
      if (!this.#follower.isReady) this.#follower.ready.then(() => this.#wake()).catch(() => {});
    });
  }

  get status(): ExecutionStatus {
    return this.#follower.state.status;
  }

  get view(): View {
    return this.#follower.view;
  }

  /** Resolves when all inputs are made and the conversation is idle. */
  async play(): Promise<void> {
    await this.#follower.ready;
    const { inputs, comparison, model } = this.#deps;
    try {
      for (const placed of inputs) {
        if (!(await this.#reached(placed)) || model().isExhausted) return;
        const { point } = placed;
        if (point.kind === "rest" && this.#rests && this.status !== point.status)
          comparison.add({
            kind: "status",
            at: `before event ${placed.seq} of the recording`,
            what: `${this.status} in the place of ${point.status}`,
          });
        if (placed.afterMs > 0) await pause(Math.min(placed.afterMs, maxDelayMs));
        await this.#make(placed);
        this.#madeCount++;
        this.#wake();
      }
      await this.#until(() => this.#rests);
    } finally {
      this.#isOver = true;
      this.#wake();
    }
  }

  close(): void {
    this.#unfollow();
    this.#follower.close();
  }

  /** Delays the answer to a call until the inputs during this call are made. */
  async beforeAnswer(usageId: string, index: number): Promise<void> {
    this.#held = { usageId, index };
    while (!this.#isOver && this.#holds) {
      this.#wake();
      await this.#change();
    }
    this.#held = undefined;
  }

  /** The current call waits for inputs. */
  get #holds(): boolean {
    const { usageId, index } = this.#held ?? {};
    return this.#deps.inputs
      .slice(this.#madeCount)
      .some(({ point }) => point.kind === "call" && point.usageId === usageId && point.index === index);
  }

  get #rests(): boolean {
    if (!this.#follower.isReady) return false;
    const { status, openActions: open } = this.#follower.state;
    return status !== "running" && (open.size === 0 || status === "waiting_for_confirmation");
  }

  /**
   * Waits for the point of an input. If the run diverges, its end or a waiting call is the point.
   */
  #reached({ point }: PlacedInput): Promise<boolean> {
    return this.#until(() => {
      if (this.#holds || this.#rests) return true;
      if (point.kind === "work")
        return this.#work.actions >= point.actions && this.#work.results >= point.results;
      return point.kind === "call" && this.#deps.model().begun(point.usageId) > point.index;
    });
  }

  /** False when nothing happened for too long. */
  async #until(isThere: () => boolean): Promise<boolean> {
    const { comparison, idleMs } = this.#deps;
    while (!isThere()) {
      const changed = await Promise.race([this.#change().then(() => true), sleep(idleMs)]);
      if (changed) continue;
      comparison.add({
        kind: "stalled",
        at: `after ${this.#follower.state.seq} records`,
        what: `nothing happened for ${Math.round(idleMs / 1000)} s`,
      });
      return false;
    }
    return true;
  }

  #change(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const before = this.#wake;
    this.#wake = () => {
      this.#wake = () => {};
      before();
      resolve();
    };
    return promise;
  }

  async #make({ input }: PlacedInput): Promise<void> {
    const { conversations, id } = this.#deps;
    switch (input.kind) {
      case "message":
        return conversations.commands.send(id, input.content, {
          run: input.run,
          ...(input.sender && { sender: input.sender }),
        });
      case "run":
        // It may already be running.
        return conversations.commands.run(id).catch(() => {});
      case "reject":
        return conversations.commands.reject(id, input.reason);
      case "condense":
        // The log shows the result.
        await Promise.race([
          conversations.sideCalls.condense(id).catch(() => {}),
          this.#until(() => this.#holds),
        ]);
        return;
      default:
        return conversations.commands[input.kind](id);
    }
  }
}

function sleep(milliseconds: number): Promise<false> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds, false).unref());
}
