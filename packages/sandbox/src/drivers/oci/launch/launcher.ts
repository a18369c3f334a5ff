import { Worker } from "node:worker_threads";
import { PlatformError } from "@sandpiper/core/errors";
import type { LauncherSettings, LaunchRequest, LaunchResult } from "./launcher-messages.ts";

/** More concurrent starts only take memory and slow each other down. */
const maxConcurrentStarts = 24;

/**
 * Starts containers on stacked root filesystems. A thread mounts them in its own mount namespace,
 * so that only the runtime sees them, and they live on in the container's namespace: a killed
 * server leaves no mount behind.
 */
export class Launcher {
  readonly #settings: LauncherSettings;
  #worker: Worker | undefined;
  readonly #waiting = new Map<
    number,
    { resolve: (result: LaunchResult) => void; reject: (error: Error) => void }
  >();
  readonly #queue: (() => void)[] = [];
  #running = 0;
  #last = 0;

  constructor(settings: LauncherSettings) {
    this.#settings = settings;
  }

  /**
   * Mounts, runs the command and resolves with its exit code once the first process of its
   * container runs its own program. Throws SandboxFailed when the root filesystem cannot be
   * mounted.
   */
  async launch(request: LaunchRequest): Promise<number> {
    if (this.#running >= maxConcurrentStarts) await new Promise<void>((resolve) => this.#queue.push(resolve));
    else this.#running++;
    try {
      const result = await this.#send(request);
      if ("failed" in result) throw new PlatformError(result.failed, { reason: result.reason });
      return result.code;
    } finally {
      const next = this.#queue.shift();
      if (next) next();
      else this.#running--;
    }
  }

  /** Current starts go on without a caller. */
  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #send(request: LaunchRequest): Promise<LaunchResult> {
    this.#worker ??= this.#startWorker();
    const worker = this.#worker;
    const number = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject });
      worker.ref();
      worker.postMessage({ number, request });
    });
  }

  #startWorker(): Worker {
    const worker = new Worker(new URL("./launcher-thread.ts", import.meta.url), {
      workerData: this.#settings,
      // The runtime must not see the secrets in the server's environment.
      env: { PATH: process.env.PATH },
      execArgv: [],
      // The code that opens descriptors by system calls closes them.
      trackUnmanagedFds: false,
    });
    worker.on("message", ({ number, result }: { number: number; result: LaunchResult }) => {
      this.#waiting.get(number)?.resolve(result);
      this.#waiting.delete(number);
      if (this.#waiting.size === 0) worker.unref();
    });
    let cause: unknown;
    worker.on("error", (error) => {
      cause = error;
    });
    worker.on("exit", () => {
      this.#worker = undefined;
      const error = new PlatformError("LauncherEnded", { cause });
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
    });
    worker.unref();
    return worker;
  }
}
