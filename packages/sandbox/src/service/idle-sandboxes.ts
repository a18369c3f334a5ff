import type { Logger } from "@sandpiper/core/log/logger";
import type { Egress } from "../network/api.ts";
import { type IdlePolicy, type IdleStep, nextIdleStep } from "./idle.ts";
import { logFailure } from "./log-failure.ts";
import { hasTraffic, isBusy, type SandboxRuntimeState } from "./runtime-state.ts";

export interface IdleSandboxesDeps {
  policy: IdlePolicy;
  states: ReadonlyMap<string, SandboxRuntimeState>;
  egress: Pick<Egress, "lastTraffic"> | undefined;
  /** `isDue` is checked again when the step gets its turn. */
  perform: Record<IdleStep, (id: string, isDue: () => boolean) => Promise<void>> & {
    storeUse: (state: SandboxRuntimeState) => Promise<void>;
  };
  clock: Clock;
  logger: Pick<Logger, "info" | "warn">;
}

export interface Clock {
  /** Milliseconds since the epoch. */
  now: () => number;
  /** Milliseconds of a monotonic clock. */
  steady: () => number;
}

/** Maximum age of the stored time of the last use, ms. */
const storeUseIntervalMs = 600_000;
/** A larger difference between the clocks means that the clock was set or the machine slept, ms. */
const maxDriftMs = 5_000;
const maxConcurrentSteps = 16;

/** Pauses, hibernates and deletes idle sandboxes. */
export class IdleSandboxes {
  readonly #deps: IdleSandboxesDeps;
  /** Difference between the clock and the steady clock, ms. */
  #offset: number;

  constructor(deps: IdleSandboxesDeps) {
    this.#deps = deps;
    this.#offset = deps.clock.now() - deps.clock.steady();
  }

  /** Performs the steps that are due. Never rejects. */
  async tick(): Promise<void> {
    const { states, perform, policy, egress, logger } = this.#deps;
    const { now } = this.#deps.clock;
    this.#adjustToClock();
    const due: { id: string; step: IdleStep }[] = [];
    for (const state of states.values()) {
      if (isBusy(state) || hasTraffic(state)) state.lastUsedAt = now();
      state.lastUsedAt = Math.max(state.lastUsedAt, egress?.lastTraffic(state.id) ?? 0);
      const step = nextIdleStep(state, policy, now());
      if (step) due.push({ id: state.id, step });
      else if (state.lastUsedAt - state.storedUseAt > storeUseIntervalMs)
        await logFailure(
          logger,
          "last use of the sandbox not stored",
          () => perform.storeUse(state),
          state.id,
        );
    }
    for (let i = 0; i < due.length; i += maxConcurrentSteps)
      await Promise.all(due.slice(i, i + maxConcurrentSteps).map(({ id, step }) => this.#perform(id, step)));
  }

  /** A changed clock or the sleep of the machine must not make sandboxes idle. */
  #adjustToClock(): void {
    const { states } = this.#deps;
    const { now, steady } = this.#deps.clock;
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
    const { states, policy, clock, perform, logger } = this.#deps;
    const isDue = () => {
      const state = states.get(id);
      return state !== undefined && nextIdleStep(state, policy, clock.now()) === step;
    };
    const work = async () => {
      await perform[step](id, isDue);
      logger.info({ sandbox: id, step }, "idle sandbox");
    };
    await logFailure(logger, `idle sandbox: ${step} failed`, work, id);
  }
}
