import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import { isBusy, type SandboxRuntimeState } from "./runtime-state.ts";
import type { SharedSlots } from "./shared-sandboxes.ts";

export interface SandboxSlotsDeps {
  states: ReadonlyMap<string, SandboxRuntimeState>;
  /** Running sandboxes of a user; 0: no limit. */
  maxPerUser: number;
  /** Pauses a sandbox unless it is busy by now. */
  pauseIdle: (id: string) => Promise<void>;
  /** The slots when several servers share them; undefined in a server that is alone. */
  shared: SharedSlots | undefined;
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

/** Interval in which shared slots follow what became of the sandboxes, ms. */
const alignMs = 250;
/** Interval in which a server looks whether sandboxes wait at other servers, ms. */
const makeRoomMs = 1_000;

/**
 * Limits the running sandboxes of each user. A sandbox that needs a slot gets a free one, else that
 * of an idle sandbox, which is paused, else it waits in order. A sandbox that is starting or in use
 * is never paused for another one. Where several servers share the slots, a server pauses idle
 * sandboxes of its own first; after a second another server pauses one.
 */
export class SandboxSlots {
  readonly #deps: SandboxSlotsDeps;
  /** Waiting sandboxes by user, in order. */
  readonly #queues = new Map<string, SandboxRuntimeState[]>();
  /** Called when a sandbox begins to wait. */
  readonly #onQueued = new Map<SandboxRuntimeState, Set<() => void>>();

  /** Sandboxes of which this server has told the others that they have a slot, with their users. */
  readonly #told = new Map<string, string>();
  readonly #timers: NodeJS.Timeout[] = [];
  #isMakingRoom = false;

  constructor(deps: SandboxSlotsDeps) {
    this.#deps = deps;
    if (!deps.shared || deps.maxPerUser === 0) return;
    this.#timers.push(setInterval(() => this.#align(), alignMs).unref());
    this.#timers.push(setInterval(() => void this.#makeRoom(), makeRoomMs).unref());
  }

  close(): void {
    for (const timer of this.#timers) clearInterval(timer);
  }

  /**
   * Takes a slot, which the sandbox keeps until its `hasSlot` is false. Throws SandboxFailed when
   * none is free in time, and the signal's reason.
   */
  async take(state: SandboxRuntimeState, { signal, waitMs, onWait }: SlotWait): Promise<void> {
    const { maxPerUser: max, shared } = this.#deps;
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
      while (!(await this.#tryTake(state, queue[0] === state))) {
        signal.throwIfAborted();
        if (performance.now() >= end) throw new PlatformError("SandboxesInUse", { max }, { retryAfter: 10 });
        const position = shared?.position(state.userId, state.id) ?? queue.indexOf(state) + 1;
        if (position !== told) onWait(position, max);
        if (told === 0) for (const tell of this.#onQueued.get(state) ?? []) tell();
        told = position;
        await sleep(lookMs);
      }
    } finally {
      queue.splice(queue.indexOf(state), 1);
      if (!state.hasSlot) shared?.release(state.userId, state.id);
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
    const place = (this.#queues.get(state.userId)?.indexOf(state) ?? -1) + 1;
    if (state.status !== "STARTING" || place === 0) return undefined;
    const position = this.#deps.shared?.position(state.userId, state.id) ?? place;
    return new PlatformError("SandboxQueued", { id: state.id, position, max: this.#deps.maxPerUser });
  }

  /**
   * Takes a free slot. The first sandbox of the queue pauses idle sandboxes until there is one.
   * Throws what the store of shared slots throws.
   */
  async #tryTake(state: SandboxRuntimeState, isFirst: boolean): Promise<boolean> {
    const { pauseIdle, shared } = this.#deps;
    if (!isFirst && !shared) return false;
    for (const tried = new Set<SandboxRuntimeState>(); ; ) {
      if (await this.#takeFree(state, tried.size > 0)) {
        state.hasSlot = true;
        return true;
      }
      const idle = isFirst && findIdle(this.#withSlot(state.userId).filter((one) => !tried.has(one)));
      if (!idle) return false;
      tried.add(idle);
      await pauseIdle(idle.id).catch(() => {});
    }
  }

  async #takeFree({ userId, id }: SandboxRuntimeState, asksAgain: boolean): Promise<boolean> {
    const { maxPerUser, shared } = this.#deps;
    if (!shared) return this.#withSlot(userId).length < maxPerUser;
    this.#align();
    // A sandbox that waits gets its slot without asking again.
    const waits = shared.position(userId, id) !== undefined;
    const has = waits && !asksAgain ? shared.has(id) : await shared.acquire(userId, id);
    if (has) this.#told.set(id, userId);
    return has;
  }

  #withSlot(userId: string): SandboxRuntimeState[] {
    return [...this.#deps.states.values()].filter((one) => one.userId === userId && one.hasSlot);
  }

  /** Tells the other servers which sandboxes have a slot and which have none any more. */
  #align(): void {
    const { states, shared } = this.#deps;
    for (const { id, userId, hasSlot } of states.values())
      if (hasSlot && !this.#told.has(id)) {
        this.#told.set(id, userId);
        void shared?.keep(userId, id);
      }
    for (const [id, userId] of this.#told)
      if (!states.get(id)?.hasSlot) {
        this.#told.delete(id);
        shared?.release(userId, id);
      }
  }

  /** Pauses idle sandboxes for sandboxes that wait at other servers. Never rejects. */
  async #makeRoom(): Promise<void> {
    const { states, pauseIdle, shared } = this.#deps;
    if (!shared || this.#isMakingRoom || !findIdle([...states.values()])) return;
    this.#isMakingRoom = true;
    for (const userId of await shared.usersWaiting()) {
      if (!findIdle(this.#withSlot(userId)) || !(await shared.shouldFree(userId))) continue;
      const idle = findIdle(this.#withSlot(userId));
      if (idle) await pauseIdle(idle.id).catch(() => {});
    }
    this.#align();
    this.#isMakingRoom = false;
  }
}

/** The sandbox that was unused longest of those that run and are not in use. */
export function findIdle(states: readonly SandboxRuntimeState[]): SandboxRuntimeState | undefined {
  return states
    .filter((one) => one.status === "RUNNING" && one.incarnation !== undefined && !isBusy(one))
    .sort((a, b) => a.lastUsedAt - b.lastUsedAt)[0];
}
