import { setTimeout as delay } from "node:timers/promises";
import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import type { FileBounds, SandboxUsage } from "../driver.ts";
import { type DiskSpace, findScarce, formatSize, hasShrunk, maxFilesOf } from "./disk-space.ts";
import type { UserDisk } from "./user-disk.ts";

export interface WatchedSandbox {
  id: string;
  userId: string;
  /** Limit of its files, bytes. */
  limitBytes: number;
}

export interface DiskWatchDeps {
  running: () => Iterable<WatchedSandbox>;
  usage: (id: string, bounds: FileBounds) => Promise<SandboxUsage>;
  /** Stops a sandbox; `reason` is a sentence for its user. */
  stop: (id: string, reason: string) => Promise<void>;
  /** The filesystem that holds the sandboxes. */
  disk: {
    /** Undefined when it is unknown. */
    space: () => Promise<DiskSpace | undefined>;
    /** Files, folders and links that a sandbox may have. */
    maxFiles: number;
    /** What all sandboxes of a user take. */
    users?: Pick<UserDisk, "note" | "findExcess" | "tick">;
  };
  now: () => number;
  logger: Pick<Logger, "warn">;
}

/** The last measurement of a sandbox. */
interface Measurement extends SandboxUsage {
  nextAt: number;
  intervalMs: number;
  /** Growth between the last two measurements. */
  growth: FileBounds;
  /** The sandbox may exceed its limit until then. */
  graceUntil: number;
}

const minIntervalMs = 4_000;
const maxIntervalMs = 60_000;
/** How long a tick waits for measurements, ms; later ones take effect when they end. */
const budgetMs = 1_000;
/** Time that a resumed sandbox over its limit may run, ms. */
export const graceMs = 60_000;
/** Concurrent measurements of the machine, and of one user, so that slow ones delay nobody else. */
const maxMeasuring = [8, 4] as const;

/**
 * Enforces the disk limits of sandboxes where the filesystem has no quotas, and keeps the
 * filesystem from filling up. Active sandboxes are measured every few seconds, others less and less
 * often, and all of them when the free space shrinks quickly. A sandbox over its limit is stopped;
 * its user can resume it and has a minute to delete files. On a nearly full filesystem the sandbox
 * that grows fastest is stopped.
 */
export class DiskWatch {
  readonly #deps: DiskWatchDeps;
  readonly #measurements = new Map<string, Measurement>();
  readonly #permits = new KeyedSemaphore(maxMeasuring);
  /** Sandboxes whose measurement waits or runs. */
  readonly #measuring = new Set<string>();
  /** Space at the last tick. */
  #space: DiskSpace | undefined;

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

  /** True when the free space has shrunk so much since the last tick that the next is due. */
  async isUrgent(): Promise<boolean> {
    return hasShrunk(this.#space, await this.#deps.disk.space());
  }

  /** Measures the sandboxes that are due. Slow measurements end after it. */
  async tick(): Promise<void> {
    const { now, running, disk } = this.#deps;
    void disk.users?.tick();
    const before = this.#space;
    const space = await disk.space();
    this.#space = space;
    const scarce = findScarce(space);
    const measureAll = scarce !== undefined || hasShrunk(before, space);
    const watched = [...running()];
    const ids = new Set(watched.map(({ id }) => id));
    for (const [id, { graceUntil }] of this.#measurements)
      if (!ids.has(id) && graceUntil < now()) this.#measurements.delete(id);
    const due = watched
      .filter(({ id }) => !this.#measuring.has(id))
      .map((sandbox) => ({ ...sandbox, at: this.#measurements.get(sandbox.id)?.nextAt ?? 0 }))
      .filter(({ at }) => measureAll || at <= now())
      .sort((a, b) => a.at - b.at);
    const fitting: string[] = [];
    const files = maxFilesOf(space, disk.maxFiles);
    const work = due.map(async (sandbox) => {
      if (!(await this.#measure(sandbox, files))) fitting.push(sandbox.id);
    });
    const late = new AbortController();
    const timeout = delay(budgetMs, undefined, { signal: late.signal }).catch(() => {});
    await Promise.race([Promise.all(work), timeout]);
    late.abort();
    if (scarce) await this.#stopFastest(fitting, scarce);
  }

  /** True when the sandbox was stopped. Never rejects. */
  async #measure({ id, userId, limitBytes }: WatchedSandbox, files: number): Promise<boolean> {
    const { usage, stop, disk, logger } = this.#deps;
    this.#measuring.add(id);
    const { ready, release } = this.#permits.enter(["machine", `user ${userId}`]);
    await ready;
    try {
      const last = this.#measurements.get(id);
      const bounds = { diskBytes: limitBytes, files };
      const current = await usage(id, bounds);
      const { graceUntil } = this.#note(id, last, current);
      disk.users?.note(id, current.diskBytes);
      const grows = last !== undefined && current.diskBytes > last.diskBytes;
      const amount = grows ? disk.users?.findExcess(userId) : undefined;
      const reason =
        findExcess(current, bounds, last) ??
        (amount &&
          `The sandbox was stopped because it grows, and the files of all your sandboxes and snapshots take ${amount}; delete some of them, or resume it and delete files within ${graceMs / 1000} s.`);
      if (reason === undefined || this.#deps.now() < graceUntil) return false;
      await stop(id, reason);
      return true;
    } catch (error) {
      logger.warn({ sandbox: id, reason: errorText(error) }, "disk usage of the sandbox not measured");
      return false;
    } finally {
      release();
      this.#measuring.delete(id);
    }
  }

  #note(id: string, last: Measurement | undefined, current: SandboxUsage): Measurement {
    const active = !last || current.cpuMs !== last.cpuMs || current.diskBytes !== last.diskBytes;
    const intervalMs = active ? minIntervalMs : Math.min(last.intervalMs * 2, maxIntervalMs);
    const isFirst = last === undefined || last.nextAt === 0;
    const growth = {
      diskBytes: isFirst ? 0 : current.diskBytes - last.diskBytes,
      files: isFirst ? 0 : current.files - last.files,
    };
    const nextAt = this.#deps.now() + intervalMs;
    const graceUntil = last?.graceUntil ?? 0;
    const measurement = { ...current, growth, intervalMs, nextAt, graceUntil };
    this.#measurements.set(id, measurement);
    return measurement;
  }

  async #stopFastest(ids: string[], scarce: keyof FileBounds): Promise<void> {
    const { stop, logger } = this.#deps;
    const [fastest] = ids
      .map((id) => ({ id, growth: this.#measurements.get(id)?.growth[scarce] ?? 0 }))
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
  files: 0,
  isPartial: false,
  cpuMs: 0,
  pids: 0,
  nextAt: 0,
  intervalMs: minIntervalMs,
  growth: { diskBytes: 0, files: 0 },
  graceUntil: 0,
};

/** Why a sandbox is stopped, as a sentence for its user; undefined when it fits. */
function findExcess(
  { diskBytes, files, isPartial }: SandboxUsage,
  limits: FileBounds,
  last: Measurement | undefined,
): string | undefined {
  const advice = `resume it and delete some of them within ${graceMs / 1000} s.`;
  if (diskBytes > limits.diskBytes)
    return `The sandbox was stopped because its files take ${formatSize(diskBytes)} of the ${formatSize(limits.diskBytes)} that they may take, those in its snapshots included; ${advice}`;
  if (files > limits.files)
    return `The sandbox was stopped because it has more than the ${limits.files} files that it may have, those in its snapshots included; ${advice}`;
  // A busy machine may delay one count, but hardly two.
  if (isPartial && last?.isPartial)
    return `The sandbox was stopped because its files could not be counted twice in a row: it has too many of them; ${advice}`;
  return undefined;
}
