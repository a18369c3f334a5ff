import { Worker } from "node:worker_threads";
import { inNetwork } from "../../../kernel/namespaces.ts";
import { rootless } from "../storage/uid-range.ts";
import { type SocketAnswer, type SocketKind, type SocketRequest, socketOf } from "./socket-messages.ts";

/**
 * Makes a socket in a network namespace (an open file of it, which is the caller's), and gives its descriptor, which is the caller's too.
 * Rejects with EADDRINUSE, ….
 */
export async function makeSocket(network: number, kind: SocketKind): Promise<number> {
  if (!rootless()) return inNetwork(network, () => socketOf(kind));
  thread ??= new SocketThread(() => {
    thread = undefined;
  });
  return thread.ask(network, kind);
}

let thread: SocketThread | undefined;

/** Sockets belong to the process, network namespaces to a thread. */
class SocketThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, { resolve: (fd: number) => void; reject: (error: Error) => void }>();
  #last = 0;

  constructor(onEnd: () => void) {
    // Descriptors are closed by whoever gets them.
    this.#worker = new Worker(new URL("./socket-thread.ts", import.meta.url), {
      env: {},
      execArgv: [],
      trackUnmanagedFds: false,
    });
    this.#worker.unref();
    this.#worker.on("message", (answer: SocketAnswer) => {
      const { resolve, reject } = this.#waiting.get(answer.number)!;
      this.#waiting.delete(answer.number);
      if (this.#waiting.size === 0) this.#worker.unref();
      if ("fd" in answer) resolve(answer.fd);
      else reject(Object.assign(new Error(answer.error), { code: answer.code }));
    });
    let cause: unknown;
    this.#worker.on("error", (error) => {
      cause = error;
    });
    this.#worker.on("exit", () => {
      onEnd();
      const error = new Error("the thread that makes sockets in sandboxes has ended", { cause });
      for (const { reject } of this.#waiting.values()) reject(error);
    });
  }

  ask(network: number, kind: SocketKind): Promise<number> {
    const number = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject });
      this.#worker.ref();
      this.#worker.postMessage({ number, network, kind } satisfies SocketRequest);
    });
  }
}
