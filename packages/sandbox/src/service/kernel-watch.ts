import { readFile } from "node:fs/promises";
import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { Semaphore } from "@sandpiper/core/scheduling/semaphore";
import type { UncountedBounds } from "../driver.ts";
import { formatSize } from "./disk-space.ts";

export interface KernelWatchDeps {
  running: () => Iterable<{ id: string }>;
  /** Memory of a sandbox outside of its limit, bytes; see `SandboxDriver.uncountedBytes`. */
  measure: (id: string, bounds: UncountedBounds) => Promise<number>;
  /** Stops a sandbox; `reason` is a sentence for its user. */
  stop: (id: string, reason: string) => Promise<void>;
  machine?: () => Promise<MachineMemory>;
  /** Milliseconds. */
  now?: () => number;
  logger: Pick<Logger, "warn">;
}

/** Memory of the machine, bytes. */
export interface MachineMemory {
  /** Held by the kernel and not reclaimable. */
  kernel: number;
  available: number;
  total: number;
}

/** Growth of the kernel's memory after which all running sandboxes are measured, bytes. */
const stepBytes = 64 * 2 ** 20;
/** What a sandbox may hold outside of its limit, bytes. */
const maxBytes = 128 * 2 ** 20;
/** The same while the machine has less than this share of its memory available. */
const scarceShare = 0.1;
const maxScarceBytes = 16 * 2 ** 20;
/** Time between measurements while memory is scarce and the kernel's does not grow, ms. */
const scarceIntervalMs = 1_000;
const maxMeasuring = 8;

/**
 * Stops sandboxes whose processes hold much memory of the kernel that no limit counts, such as
 * messages in sockets and file locks. They are measured when such memory of the machine grows, and
 * every second while the machine has little memory.
 */
export class KernelWatch {
  readonly #deps: Required<KernelWatchDeps>;
  readonly #permits = new Semaphore(maxMeasuring);
  /** Least `kernel` since the last measurement. */
  #base = Number.POSITIVE_INFINITY;
  #measuredAt = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | undefined;

  constructor(deps: KernelWatchDeps) {
    this.#deps = { machine: readMachineMemory, now: () => performance.now(), ...deps };
  }

  /** Measures the sandboxes when that is due, or waits for the look in progress. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #look(): Promise<void> {
    const { running, machine, now } = this.#deps;
    const { kernel, available, total } = await machine();
    this.#base = Math.min(this.#base, kernel);
    const isScarce = available < total * scarceShare;
    const isLate = isScarce && now() - this.#measuredAt >= scarceIntervalMs;
    if (!isLate && kernel - this.#base < (isScarce ? maxScarceBytes : stepBytes)) return;
    this.#base = kernel;
    this.#measuredAt = now();
    const bounds = { bytes: isScarce ? maxScarceBytes : maxBytes, isScarce };
    await Promise.all([...running()].map(({ id }) => this.#permits.run(() => this.#check(id, bounds))));
  }

  /** Never rejects. */
  async #check(id: string, bounds: UncountedBounds): Promise<void> {
    const { measure, stop, logger } = this.#deps;
    try {
      if ((await measure(id, bounds)) <= bounds.bytes) return;
      const excess = bounds.isScarce
        ? "the memory of the server is nearly used up, and its processes hold more than"
        : "its processes hold more than";
      const kinds = bounds.isScarce
        ? "of memory outside of the sandbox's limit"
        : "of the kernel's memory outside of the sandbox's limit, by sockets, file locks or system call filters";
      await stop(
        id,
        `The sandbox was stopped because ${excess} ${formatSize(bounds.bytes)} ${kinds}; resume it to start it anew.`,
      );
    } catch (error) {
      logger.warn({ sandbox: id, reason: errorText(error) }, "kernel memory of the sandbox not measured");
    }
  }
}

async function readMachineMemory(): Promise<MachineMemory> {
  const [memory, sockets] = await Promise.all(
    ["/proc/meminfo", "/proc/net/sockstat"].map((path) => readFile(path, "latin1")),
  );
  const kilobytes = (name: string) =>
    Number(new RegExp(`^${name}: {1,30}(\\d{1,15})`, "m").exec(memory!)?.[1] ?? 0);
  // The buffers of TCP and UDP sockets of all network namespaces, in pages.
  const pages = [...sockets!.matchAll(/ mem (\d{1,15})/g)].reduce((sum, [, count]) => sum + Number(count), 0);
  return {
    kernel: (kilobytes("SUnreclaim") + kilobytes("VmallocUsed") + pages * 4) * 1_024,
    available: kilobytes("MemAvailable") * 1_024,
    total: kilobytes("MemTotal") * 1_024,
  };
}
