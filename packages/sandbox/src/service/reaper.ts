import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { SandboxDriver } from "../driver.ts";
import type { Egress } from "../network/api.ts";
import { DiskWatch, type WatchedSandbox } from "./disk-watch.ts";
import { type IdlePolicy, type IdleStep, nextIdleStep } from "./idle.ts";
import { hasTraffic, isBusy, type SandboxRuntimeState } from "./runtime-state.ts";

export interface ReaperDeps {
  driver: Pick<SandboxDriver, "usage" | "reap">;
  policy: IdlePolicy;
  states: ReadonlyMap<string, SandboxRuntimeState>;
  /** The ids that the engine may know; both sets change over time. */
  known: { sandboxes: Set<string>; snapshots: Set<string> };
  egress: Pick<Egress, "reap" | "lastTraffic"> | undefined;
  space: () => Promise<{ free: number; total: number } | undefined>;
  /** The reaper's actions. `isDue` is checked again when the action gets its turn. */
  perform: Record<IdleStep, (id: string, isDue: () => boolean) => Promise<void>> & {
    stop: (id: string, reason: string) => Promise<void>;
    storeUse: (state: SandboxRuntimeState) => Promise<void>;
  };
  logger: Pick<Logger, "info" | "warn">;
  now: () => number;
  /** Milliseconds of a monotonic clock. */
  steady: () => number;
  /** 0: only `tick` and `reap`. */
  intervalMs: number;
}

const reapIntervalMs = 300_000;
/** Maximum age of the stored time of the last use, ms. */
const storeUseIntervalMs = 600_000;
/** A larger difference between the clocks means that the clock was set or the machine slept, ms. */
const maxDriftMs = 5_000;
const maxConcurrentSteps = 16;

/**
 * Checks all sandboxes every few seconds: pauses, hibernates and deletes idle ones, stops those
 * that grow too large, and has the engine remove orphans.
 */
export class Reaper {
  readonly disk: DiskWatch;
  readonly #deps: ReaperDeps;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;
  #reapedAt = 0;
  /** Difference between the clock and the steady clock, ms. */
  #offset: number;

  constructor(deps: ReaperDeps) {
    const { driver, space, perform, now, steady, logger } = deps;
    this.#deps = deps;
    this.#offset = now() - steady();
    this.disk = new DiskWatch({
      running: () => this.#runningSandboxes(),
      usage: (id) => driver.usage(id),
      stop: perform.stop,
      space,
      now: steady,
      logger,
    });
  }

  start(): void {
    const { intervalMs } = this.#deps;
    if (intervalMs > 0) this.#timer = setInterval(() => void this.tick(), intervalMs).unref();
  }

  /** Runs one round, or waits for the round in progress. Never rejects. */
  tick(): Promise<void> {
    this.#round ??= this.#check().finally(() => {
      this.#round = undefined;
    });
    return this.#round;
  }

  /** Has the engine remove what belongs to no sandbox and no snapshot. Never rejects. */
  async reap(): Promise<void> {
    const { driver, egress, known, steady } = this.#deps;
    this.#reapedAt = steady();
    await this.#try(undefined, "network logs of deleted sandboxes could not be removed", async () =>
      egress?.reap(known.sandboxes),
    );
    await this.#try(undefined, "orphans in the sandbox engine could not be removed", () =>
      driver.reap(known),
    );
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#round;
  }

  async #check(): Promise<void> {
    const { states, now, steady, perform, policy, egress } = this.#deps;
    this.#adjustToClock();
    const due: { id: string; step: IdleStep }[] = [];
    for (const state of states.values()) {
      if (isBusy(state) || hasTraffic(state)) state.lastUsedAt = now();
      state.lastUsedAt = Math.max(state.lastUsedAt, egress?.lastTraffic(state.id) ?? 0);
      const step = nextIdleStep(state, policy, now());
      if (step) due.push({ id: state.id, step });
      else if (state.lastUsedAt - state.storedUseAt > storeUseIntervalMs)
        await this.#try(state.id, "last use of the sandbox not stored", () => perform.storeUse(state));
    }
    for (let i = 0; i < due.length; i += maxConcurrentSteps)
      await Promise.all(due.slice(i, i + maxConcurrentSteps).map(({ id, step }) => this.#perform(id, step)));
    await this.#try(undefined, "disk usage check failed", () => this.disk.tick());
    if (steady() - this.#reapedAt > reapIntervalMs) await this.reap();
  }

  /** A changed clock or the sleep of the machine must not make sandboxes idle. */
  #adjustToClock(): void {
    const { states, now, steady } = this.#deps;
    const jump = now() - steady() - this.#offset;
    if (Math.abs(jump) < maxDriftMs) return;
    this.#offset += jump;
    // A time after the jump is right already. In doubt a sandbox counts as used later than it was.
    const shift = (at: number) => (jump > 0 || at > now() ? Math.min(at + jump, now()) : at);
    for (const state of states.values()) {
      state.lastUsedAt = shift(state.lastUsedAt);
      state.pausedAt = shift(state.pausedAt);
    }
  }

  async #perform(id: string, step: IdleStep): Promise<void> {
    const { states, policy, now, perform, logger } = this.#deps;
    const isDue = () => {
      const state = states.get(id);
      return state !== undefined && nextIdleStep(state, policy, now()) === step;
    };
    await this.#try(id, `idle sandbox: ${step} failed`, async () => {
      await perform[step](id, isDue);
      logger.info({ sandbox: id, step }, "idle sandbox");
    });
  }

  async #try(sandbox: string | undefined, text: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#deps.logger.warn({ sandbox, reason: errorText(error) }, text);
    }
  }

  *#runningSandboxes(): Iterable<WatchedSandbox> {
    for (const { id, status, incarnation, diskLimit } of this.#deps.states.values()) {
      if (status === "RUNNING" && incarnation !== undefined && diskLimit !== undefined)
        yield { id, limitBytes: diskLimit };
    }
  }
}
