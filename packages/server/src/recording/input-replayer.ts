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
  /** How long nothing may happen, ms. */
  idleMs: number;
}

/** Longest wait before an input that came while the agent was at work, ms. */
const maxDelayMs = 5_000;

/**
 * Does in a conversation what was done in a recorded one, at the same points of the agent's work.
 */
export class InputReplayer {
  readonly #deps: InputReplayerDeps;
  readonly #follower: LogFollower;
  readonly #unfollow: () => void;
  #work = { actions: 0, results: 0 };
  /** Inputs that were made. */
  #madeCount = 0;
  /** The call that has begun and is not answered yet. */
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
    });
  }

  /** What the conversation has come to. */
  get status(): ExecutionStatus {
    return this.#follower.state.status;
  }

  get view(): View {
    return this.#follower.view;
  }

  /** Resolves when everything was done and the conversation rests. */
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

  /** Holds a call until the inputs are made that came while it was under way. */
  async beforeAnswer(usageId: string, index: number): Promise<void> {
    this.#held = { usageId, index };
    while (!this.#isOver && this.#holds) {
      this.#wake();
      await this.#change();
    }
    this.#held = undefined;
  }

  /** A call waits for inputs that are still to come. */
  get #holds(): boolean {
    const { usageId, index } = this.#held ?? {};
    return this.#deps.inputs
      .slice(this.#madeCount)
      .some(({ point }) => point.kind === "call" && point.usageId === usageId && point.index === index);
  }

  get #rests(): boolean {
    const { status, openActions: open } = this.#follower.state;
    return status !== "running" && (open.size === 0 || status === "waiting_for_confirmation");
  }

  /**
   * Waits for the point of an input. Where the work has taken another way, the end of it, or a call
   * that waits for later inputs, is the point.
   */
  #reached({ point }: PlacedInput): Promise<boolean> {
    return this.#until(() => {
      if (this.#holds || this.#rests) return true;
      if (point.kind === "work")
        return this.#work.actions >= point.actions && this.#work.results >= point.results;
      return point.kind === "call" && this.#deps.model().begun(point.usageId) > point.index;
    });
  }

  /** False where nothing happened for too long. */
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
        // One that runs already needs no second one.
        return conversations.commands.run(id).catch(() => {});
      case "reject":
        return conversations.commands.reject(id, input.reason);
      case "condense":
        // What comes of it is seen in the log.
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
