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
  live: ReadonlyMap<string, SandboxRuntimeState>;
  /** The ids that the engine may know, as they are at any time. */
  known: { sandboxes: Set<string>; snapshots: Set<string> };
  egress?: Pick<Egress, "reap"> | undefined;
  /** When something last passed through a sandbox's way out, ms since the epoch. */
  lastTraffic: (id: string) => number | undefined;
  space: () => Promise<{ free: number; total: number } | undefined>;
  /** What the patrol has done. `due` tells, once it is the step's turn, whether it is due still. */
  perform: Record<IdleStep, (id: string, due: () => boolean) => Promise<void>> & {
    stop: (id: string, reason: string) => Promise<void>;
    write: (live: SandboxRuntimeState) => Promise<void>;
  };
  logger: Pick<Logger, "info" | "warn">;
  now: () => number;
  /** Milliseconds by a clock that nobody sets. */
  steady: () => number;
  /** 0: only `tick` and `reap`. */
  everyMs: number;
}

const reapEveryMs = 300_000;
/** How old the stored time of the last use may get, ms. */
const writeUseMs = 600_000;
/** By how much the clock may differ from the steady one between two looks before it has been set, or the machine has slept, ms. */
const jumpMs = 5_000;
/** Steps that are done at the same time. */
const together = 16;

/** Looks at all sandboxes every few seconds: pauses, hibernates and deletes those that nobody uses, stops those that grow too large, and has orphans reaped. */
export class Reaper {
  readonly disk: DiskWatch;
  readonly known: ReaperDeps["known"];
  readonly #options: ReaperDeps;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;
  #reapedAt = 0;
  /** How far the clock is ahead of the steady one, ms. */
  #ahead: number;

  constructor(options: ReaperDeps) {
    const { driver, space, perform, now, steady, logger } = options;
    this.#options = options;
    this.#ahead = now() - steady();
    this.known = options.known;
    this.disk = new DiskWatch({
      running: () => this.#watched(),
      usage: (id) => driver.usage(id),
      stop: perform.stop,
      space,
      now: steady,
      logger,
    });
  }

  start(): void {
    const { everyMs } = this.#options;
    if (everyMs > 0) this.#timer = setInterval(() => void this.tick(), everyMs).unref();
  }

  /** One round; one that is under way is waited for. Never rejects. */
  tick(): Promise<void> {
    this.#round ??= this.#look().finally(() => {
      this.#round = undefined;
    });
    return this.#round;
  }

  /** Has the engine remove what belongs to no sandbox and no snapshot. Never rejects. */
  async reap(): Promise<void> {
    const { driver, egress, known, steady } = this.#options;
    this.#reapedAt = steady();
    await this.#try(undefined, "logs of sandboxes that are gone could not be removed", async () =>
      egress?.reap(known.sandboxes),
    );
    await this.#try(undefined, "what a crash may have left could not be removed", () => driver.reap(known));
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#round;
  }

  async #look(): Promise<void> {
    const { live, now, steady, perform, policy, lastTraffic } = this.#options;
    this.#followClock();
    const due: { id: string; step: IdleStep }[] = [];
    for (const one of live.values()) {
      if (isBusy(one) || hasTraffic(one)) one.lastUsedAt = now();
      one.lastUsedAt = Math.max(one.lastUsedAt, lastTraffic(one.id) ?? 0);
      const step = nextIdleStep(one, policy, now());
      if (step) due.push({ id: one.id, step });
      else if (one.lastUsedAt - one.storedUseAt > writeUseMs)
        await this.#try(one.id, "the use of a sandbox could not be written down", () => perform.write(one));
    }
    for (let i = 0; i < due.length; i += together)
      await Promise.all(due.slice(i, i + together).map(({ id, step }) => this.#perform(id, step)));
    await this.#try(undefined, "the disk use of sandboxes could not be looked at", () => this.disk.tick());
    if (steady() - this.#reapedAt > reapEveryMs) await this.reap();
  }

  /** A clock that has been set, and the sleep of the machine, make no sandbox unused. */
  #followClock(): void {
    const { live, now, steady } = this.#options;
    const jump = now() - steady() - this.#ahead;
    if (Math.abs(jump) < jumpMs) return;
    this.#ahead += jump;
    // What came after the jump has the new time already; where that cannot be told, a sandbox counts as used later than it was.
    const moved = (at: number) => (jump > 0 || at > now() ? Math.min(at + jump, now()) : at);
    for (const one of live.values()) {
      one.lastUsedAt = moved(one.lastUsedAt);
      one.pausedAt = moved(one.pausedAt);
    }
  }

  async #perform(id: string, step: IdleStep): Promise<void> {
    const { live, policy, now, perform, logger } = this.#options;
    const isDue = () => {
      const one = live.get(id);
      return one !== undefined && nextIdleStep(one, policy, now()) === step;
    };
    await this.#try(id, `a sandbox that nobody uses could not be dealt with (${step})`, async () => {
      await perform[step](id, isDue);
      logger.info({ sandbox: id, step }, "a sandbox is not used");
    });
  }

  async #try(sandbox: string | undefined, text: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#options.logger.warn({ sandbox, reason: errorText(error) }, text);
    }
  }

  *#watched(): Iterable<WatchedSandbox> {
    for (const { id, status, incarnation, diskLimit } of this.#options.live.values()) {
      if (status === "RUNNING" && incarnation !== undefined && diskLimit !== undefined)
        yield { id, limitBytes: diskLimit };
    }
  }
}
