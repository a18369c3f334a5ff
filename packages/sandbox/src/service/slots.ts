import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import { isBusy, type SandboxRuntimeState } from "./runtime-state.ts";

export interface SandboxSlotsDeps {
  states: ReadonlyMap<string, SandboxRuntimeState>;
  /** Running sandboxes of a user; 0: no limit. */
  maxPerUser: number;
  /** Pauses a sandbox unless it is busy by now. */
  pauseIdle: (id: string) => Promise<void>;
}

export interface SlotWait {
  signal: AbortSignal;
  /** Longest wait, ms. */
  waitMs: number;
  /** Gets the position in the queue, from 1, and the limit. */
  onWait: (position: number, max: number) => void;
}

/** Interval in which a waiting sandbox looks whether another one became idle, ms. */
const lookMs = 100;

/**
 * Limits the running sandboxes of each user. A sandbox that needs a slot gets a free one, else that
 * of an idle sandbox, which is paused, else it waits in order. A sandbox that is starting or in use
 * is never paused for another one.
 */
export class SandboxSlots {
  readonly #deps: SandboxSlotsDeps;
  /** Waiting sandboxes by user, in order. */
  readonly #queues = new Map<string, SandboxRuntimeState[]>();
  /** Called when a sandbox begins to wait. */
  readonly #onQueued = new Map<SandboxRuntimeState, Set<() => void>>();

  constructor(deps: SandboxSlotsDeps) {
    this.#deps = deps;
  }

  /**
   * Takes a slot, which the sandbox keeps until its `hasSlot` is false. Throws SandboxFailed when
   * none is free in time, and the signal's reason.
   */
  async take(state: SandboxRuntimeState, { signal, waitMs, onWait }: SlotWait): Promise<void> {
    const { maxPerUser: max } = this.#deps;
    if (state.hasSlot || max === 0) {
      state.hasSlot = true;
      return;
    }
    const queue = this.#queues.get(state.userId) ?? [];
    this.#queues.set(state.userId, queue);
    queue.push(state);
    const end = performance.now() + waitMs;
    let told = 0;
    try {
      while (queue[0] !== state || !(await this.#tryTake(state))) {
        signal.throwIfAborted();
        if (performance.now() >= end) throw new PlatformError("SandboxesInUse", { max }, { retryAfter: 10 });
        const position = queue.indexOf(state) + 1;
        if (position !== told) onWait(position, max);
        if (told === 0) for (const tell of this.#onQueued.get(state) ?? []) tell();
        told = position;
        await sleep(lookMs);
      }
    } finally {
      queue.splice(queue.indexOf(state), 1);
      if (queue.length === 0) this.#queues.delete(state.userId);
    }
  }

  /**
   * Runs an operation that waits for its turn. Throws SandboxNotRunning as soon as the sandbox is
   * a new one that waits for a slot: `isRefused` is true from then on.
   */
  async whileNotQueued<T>(
    state: SandboxRuntimeState,
    operation: (isRefused: () => boolean) => Promise<T>,
  ): Promise<T> {
    const { promise: queued, resolve } = Promise.withResolvers<void>();
    const listeners = this.#onQueued.get(state) ?? new Set();
    this.#onQueued.set(state, listeners.add(resolve));
    let refusal: PlatformError | undefined = this.#findRefusal(state);
    try {
      if (refusal) throw refusal;
      const refused = queued.then(() => {
        refusal = this.#findRefusal(state);
        // Without a refusal the operation decides.
        return refusal ? Promise.reject(refusal) : done;
      });
      const done = operation(() => refusal !== undefined);
      return await Promise.race([done, refused]);
    } finally {
      listeners.delete(resolve);
      if (listeners.size === 0) this.#onQueued.delete(state);
    }
  }

  #findRefusal(state: SandboxRuntimeState): PlatformError | undefined {
    const position = (this.#queues.get(state.userId)?.indexOf(state) ?? -1) + 1;
    if (state.status !== "STARTING" || position === 0) return undefined;
    return new PlatformError("SandboxQueued", { id: state.id, position, max: this.#deps.maxPerUser });
  }

  /** Takes a free slot, or pauses idle sandboxes until there is one. Never rejects. */
  async #tryTake(state: SandboxRuntimeState): Promise<boolean> {
    const { states, maxPerUser, pauseIdle } = this.#deps;
    for (const tried = new Set<SandboxRuntimeState>(); ; ) {
      const others = [...states.values()].filter((one) => one.userId === state.userId && one.hasSlot);
      if (others.length < maxPerUser) {
        state.hasSlot = true;
        return true;
      }
      const idle = findIdle(others.filter((one) => !tried.has(one)));
      if (!idle) return false;
      tried.add(idle);
      await pauseIdle(idle.id).catch(() => {});
    }
  }
}

/** The sandbox that was unused longest of those that run and are not in use. */
export function findIdle(states: readonly SandboxRuntimeState[]): SandboxRuntimeState | undefined {
  return states
    .filter((one) => one.status === "RUNNING" && one.incarnation !== undefined && !isBusy(one))
    .sort((a, b) => a.lastUsedAt - b.lastUsedAt)[0];
}
