import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { SandboxUsage } from "../driver.ts";

export interface WatchedSandbox {
  id: string;
  /** Bytes that its files may take. */
  limitBytes: number;
}

export interface DiskWatchDeps {
  /** The sandboxes that run now. */
  running: () => Iterable<WatchedSandbox>;
  usage: (id: string) => Promise<SandboxUsage>;
  /** Stops a sandbox; the sentence tells its user why and what to do. */
  stop: (id: string, reason: string) => Promise<void>;
  /** Room on the filesystem that holds the sandboxes, bytes; undefined where nothing is known. */
  space: () => Promise<{ free: number; total: number } | undefined>;
  now: () => number;
  logger: Pick<Logger, "warn">;
}

/** What is known of a sandbox since the last looks at it. */
interface Seen extends SandboxUsage {
  nextLookAt: number;
  everyMs: number;
  /** Growth between the last two looks, bytes. */
  growth: number;
  /** Over the limit with its user's knowledge, until then. */
  graceUntil: number;
}

const shortestMs = 4_000;
const longestMs = 60_000;
/** What one tick may take, ms. */
const budgetMs = 1_000;
/** How long a sandbox that was stopped for its size may run after its user has resumed it, ms. */
export const graceMs = 60_000;

/**
 * Keeps sandboxes within their disk limits where the filesystem has no quotas, and the filesystem from filling up. Those at work are measured
 * every few seconds, the others more and more rarely. One that is too large is stopped; its user can resume it and has a minute then to delete
 * files. When the filesystem is nearly full, the sandbox that grows fastest is stopped.
 */
export class DiskWatch {
  readonly #options: DiskWatchDeps;
  readonly #seen = new Map<string, Seen>();

  constructor(options: DiskWatchDeps) {
    this.#options = options;
  }

  /** Someone uses the sandbox: look at it soon. */
  noteUse(id: string): void {
    const seen = this.#seen.get(id);
    if (!seen) return;
    seen.everyMs = shortestMs;
    seen.nextLookAt = Math.min(seen.nextLookAt, this.#options.now() + shortestMs);
  }

  /** Lets a sandbox run over its limit for a minute. */
  allowGrace(id: string): void {
    this.#seen.set(id, { ...unseen, graceUntil: this.#options.now() + graceMs });
  }

  /** Looks at what is due. */
  async tick(): Promise<void> {
    const { now, running, space } = this.#options;
    const began = performance.now();
    const scarce = isScarce(await space());
    const watched = [...running()];
    const ids = new Set(watched.map(({ id }) => id));
    for (const [id, { graceUntil }] of this.#seen)
      if (!ids.has(id) && graceUntil < now()) this.#seen.delete(id);
    const due = watched
      .filter(({ id }) => scarce || (this.#seen.get(id) ?? unseen).nextLookAt <= now())
      .sort((a, b) => (this.#seen.get(a.id)?.nextLookAt ?? 0) - (this.#seen.get(b.id)?.nextLookAt ?? 0));
    const fit: WatchedSandbox[] = [];
    for (const one of due) {
      if (performance.now() - began > budgetMs) break;
      if (!(await this.#look(one))) fit.push(one);
    }
    if (scarce) await this.#stopFastest(fit);
  }

  /** True when the sandbox was stopped. */
  async #look({ id, limitBytes }: WatchedSandbox): Promise<boolean> {
    const { now, usage, stop, logger } = this.#options;
    const before = this.#seen.get(id);
    try {
      const measured = await usage(id);
      const active = !before || measured.cpuMs !== before.cpuMs || measured.diskBytes !== before.diskBytes;
      const everyMs = active ? shortestMs : Math.min(before.everyMs * 2, longestMs);
      const growth = before && before.nextLookAt > 0 ? measured.diskBytes - before.diskBytes : 0;
      const graceUntil = before?.graceUntil ?? 0;
      this.#seen.set(id, { ...measured, growth, everyMs, nextLookAt: now() + everyMs, graceUntil });
      if (measured.diskBytes <= limitBytes || now() < graceUntil) return false;
      await stop(
        id,
        `The sandbox was stopped because its files take ${size(measured.diskBytes)} of the ${size(limitBytes)} that they may take; resume it and delete some of them within ${graceMs / 1000} s.`,
      );
      return true;
    } catch (error) {
      logger.warn(
        { sandbox: id, reason: errorText(error) },
        "the disk use of a sandbox could not be looked at",
      );
      return false;
    }
  }

  async #stopFastest(watched: WatchedSandbox[]): Promise<void> {
    const { stop, logger } = this.#options;
    const growing = watched
      .map(({ id }) => ({ id, growth: this.#seen.get(id)?.growth ?? 0 }))
      .filter(({ growth }) => growth > 0);
    const fastest = growing.sort((a, b) => b.growth - a.growth)[0];
    if (!fastest) return;
    await stop(
      fastest.id,
      "The sandbox was stopped because the disk of the server is nearly full and its files grew fastest; make room on the server, then resume it.",
    ).catch((error) =>
      logger.warn({ sandbox: fastest.id, reason: errorText(error) }, "a sandbox could not be stopped"),
    );
  }
}

const unseen = {
  memoryBytes: 0,
  diskBytes: 0,
  cpuMs: 0,
  pids: 0,
  nextLookAt: 0,
  everyMs: shortestMs,
  growth: 0,
  graceUntil: 0,
};

/** Less than 1 GiB, or than 2 % of a small filesystem, is free. */
function isScarce(space: { free: number; total: number } | undefined): boolean {
  return space !== undefined && space.free < Math.min(2 ** 30, space.total * 0.02);
}

function size(bytes: number): string {
  if (bytes >= 2 ** 30) return `${(bytes / 2 ** 30).toFixed(1)} GB`;
  return `${(bytes / 2 ** 20).toFixed(1)} MB`;
}
