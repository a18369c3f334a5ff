import { Worker } from "node:worker_threads";
import { PlatformError } from "@sandpiper/core/errors";
import type { LaunchAnswer, LauncherSettings, LaunchRequest } from "./launcher-messages.ts";

/** Starts at the same time; more would only take memory and turns from each other. */
const mostAtOnce = 24;

/**
 * Starts containers on stacked root filesystems. A thread of its own mounts them in a mount namespace of its own, so that they are visible to
 * nobody but the runtime that it spawns, and live on in the container's own namespace alone: a killed server leaves no mount behind.
 */
export class Launcher {
  readonly #settings: LauncherSettings;
  #worker: Worker | undefined;
  readonly #waiting = new Map<
    number,
    { resolve: (answer: LaunchAnswer) => void; reject: (error: Error) => void }
  >();
  readonly #queue: (() => void)[] = [];
  #running = 0;
  #last = 0;

  constructor(settings: LauncherSettings) {
    this.#settings = settings;
  }

  /**
   * Mounts, runs the command, and resolves with its exit code once it has ended and the first process of its container runs its own program.
   * Throws SandboxFailed when the root filesystem cannot be made.
   */
  async launch(request: LaunchRequest): Promise<number> {
    if (this.#running >= mostAtOnce) await new Promise<void>((resolve) => this.#queue.push(resolve));
    else this.#running++;
    try {
      const answer = await this.#ask(request);
      if ("error" in answer) throw new PlatformError("SandboxFailed", answer.error);
      return answer.code;
    } finally {
      const next = this.#queue.shift();
      if (next) next();
      else this.#running--;
    }
  }

  /** What is being started goes on, and nobody hears of it. */
  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #ask(request: LaunchRequest): Promise<LaunchAnswer> {
    const worker = this.#started();
    const number = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject });
      worker.ref();
      worker.postMessage({ number, request });
    });
  }

  #started(): Worker {
    if (this.#worker) return this.#worker;
    const worker = new Worker(new URL("./launcher-thread.ts", import.meta.url), {
      workerData: this.#settings,
      // Secrets of the server's environment are none of the runtime's business.
      env: { PATH: process.env.PATH },
      execArgv: [],
      // Descriptors of system calls are closed by whoever made them.
      trackUnmanagedFds: false,
    });
    worker.on("message", ({ number, answer }: { number: number; answer: LaunchAnswer }) => {
      this.#waiting.get(number)?.resolve(answer);
      this.#waiting.delete(number);
      if (this.#waiting.size === 0) worker.unref();
    });
    let cause: unknown;
    worker.on("error", (error) => {
      cause = error;
    });
    worker.on("exit", () => {
      this.#worker = undefined;
      const error = new PlatformError(
        "SandboxFailed",
        "The thread that starts sandboxes has ended; try again.",
        { cause },
      );
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
    });
    worker.unref();
    this.#worker = worker;
    return worker;
  }
}
