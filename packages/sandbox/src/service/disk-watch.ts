import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { SandboxUsage } from "../driver.ts";

export interface WatchedSandbox {
  id: string;
  /** Limit of its files, bytes. */
  limitBytes: number;
}

export interface DiskWatchDeps {
  running: () => Iterable<WatchedSandbox>;
  usage: (id: string) => Promise<SandboxUsage>;
  /** Stops a sandbox; `reason` is a sentence for its user. */
  stop: (id: string, reason: string) => Promise<void>;
  /** Space on the filesystem that holds the sandboxes, bytes; undefined when it is unknown. */
  space: () => Promise<{ free: number; total: number } | undefined>;
  now: () => number;
  logger: Pick<Logger, "warn">;
}

/** The last measurement of a sandbox. */
interface Measurement extends SandboxUsage {
  nextAt: number;
  intervalMs: number;
  /** Growth between the last two measurements, bytes. */
  growth: number;
  /** The sandbox may exceed its limit until then. */
  graceUntil: number;
}

const minIntervalMs = 4_000;
const maxIntervalMs = 60_000;
/** Maximum duration of one tick, ms. */
const budgetMs = 1_000;
/** Time that a resumed sandbox over its limit may run, ms. */
export const graceMs = 60_000;

/**
 * Enforces the disk limits of sandboxes where the filesystem has no quotas, and keeps the
 * filesystem from filling up. Active sandboxes are measured every few seconds, others less and less
 * often. A sandbox over its limit is stopped; its user can resume it and has a minute to delete
 * files. On a nearly full filesystem the sandbox that grows fastest is stopped.
 */
export class DiskWatch {
  readonly #deps: DiskWatchDeps;
  readonly #measurements = new Map<string, Measurement>();

  constructor(deps: DiskWatchDeps) {
    this.#deps = deps;
  }

  /** Schedules the next measurement of a used sandbox soon. */
  noteUse(id: string): void {
    const last = this.#measurements.get(id);
    if (!last) return;
    last.intervalMs = minIntervalMs;
    last.nextAt = Math.min(last.nextAt, this.#deps.now() + minIntervalMs);
  }

  /** Lets a sandbox exceed its limit for a minute. */
  allowGrace(id: string): void {
    this.#measurements.set(id, { ...unmeasured, graceUntil: this.#deps.now() + graceMs });
  }

  /** Measures the sandboxes that are due. */
  async tick(): Promise<void> {
    const { now, running, space } = this.#deps;
    const began = performance.now();
    const scarce = isScarce(await space());
    const watched = [...running()];
    const ids = new Set(watched.map(({ id }) => id));
    for (const [id, { graceUntil }] of this.#measurements)
      if (!ids.has(id) && graceUntil < now()) this.#measurements.delete(id);
    const due = watched
      .map((sandbox) => ({ ...sandbox, at: this.#measurements.get(sandbox.id)?.nextAt ?? 0 }))
      .filter(({ at }) => scarce || at <= now())
      .sort((a, b) => a.at - b.at);
    const fitting: WatchedSandbox[] = [];
    for (const sandbox of due) {
      if (performance.now() - began > budgetMs) break;
      if (!(await this.#measure(sandbox))) fitting.push(sandbox);
    }
    if (scarce) await this.#stopFastest(fitting);
  }

  /** True when the sandbox was stopped. */
  async #measure({ id, limitBytes }: WatchedSandbox): Promise<boolean> {
    const { now, usage, stop, logger } = this.#deps;
    const last = this.#measurements.get(id);
    try {
      const current = await usage(id);
      const active = !last || current.cpuMs !== last.cpuMs || current.diskBytes !== last.diskBytes;
      const intervalMs = active ? minIntervalMs : Math.min(last.intervalMs * 2, maxIntervalMs);
      const growth = last && last.nextAt > 0 ? current.diskBytes - last.diskBytes : 0;
      const graceUntil = last?.graceUntil ?? 0;
      this.#measurements.set(id, { ...current, growth, intervalMs, nextAt: now() + intervalMs, graceUntil });
      if (current.diskBytes <= limitBytes || now() < graceUntil) return false;
      await stop(
        id,
        `The sandbox was stopped because its files take ${formatSize(current.diskBytes)} of the ${formatSize(limitBytes)} that they may take; resume it and delete some of them within ${graceMs / 1000} s.`,
      );
      return true;
    } catch (error) {
      logger.warn({ sandbox: id, reason: errorText(error) }, "disk usage of the sandbox not measured");
      return false;
    }
  }

  async #stopFastest(watched: WatchedSandbox[]): Promise<void> {
    const { stop, logger } = this.#deps;
    const [fastest] = watched
      .map(({ id }) => ({ id, growth: this.#measurements.get(id)?.growth ?? 0 }))
      .filter(({ growth }) => growth > 0)
      .sort((a, b) => b.growth - a.growth);
    if (!fastest) return;
    await stop(
      fastest.id,
      "The sandbox was stopped because the disk of the server is nearly full and its files grew fastest; make room on the server, then resume it.",
    ).catch((error) => {
      logger.warn({ sandbox: fastest.id, reason: errorText(error) }, "sandbox could not be stopped");
    });
  }
}

const unmeasured: Measurement = {
  memoryBytes: 0,
  diskBytes: 0,
  cpuMs: 0,
  pids: 0,
  nextAt: 0,
  intervalMs: minIntervalMs,
  growth: 0,
  graceUntil: 0,
};

/** Less than 1 GiB, or 2 % of a small filesystem, is free. */
function isScarce(space: { free: number; total: number } | undefined): boolean {
  return space !== undefined && space.free < Math.min(2 ** 30, space.total * 0.02);
}

function formatSize(bytes: number): string {
  if (bytes >= 2 ** 30) return `${(bytes / 2 ** 30).toFixed(1)} GB`;
  return `${(bytes / 2 ** 20).toFixed(1)} MB`;
}
