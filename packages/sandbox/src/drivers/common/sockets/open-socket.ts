import { Worker } from "node:worker_threads";
import { inNetwork } from "../../../kernel/namespaces.ts";
import { isRootless } from "../uid-range.ts";
import { createSocket, type SocketKind, type SocketRequest, type SocketResult } from "./socket-messages.ts";

/**
 * Creates a socket in a network namespace (an open file descriptor). The caller owns both
 * descriptors. Rejects with EADDRINUSE, ….
 */
export async function openSocket(network: number, kind: SocketKind): Promise<number> {
  if (!isRootless()) return inNetwork(network, () => createSocket(kind));
  thread ??= new SocketThread(() => {
    thread = undefined;
  });
  return thread.open(network, kind);
}

let thread: SocketThread | undefined;

/** Sockets belong to the process, network namespaces to a thread. */
class SocketThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, { resolve: (fd: number) => void; reject: (error: Error) => void }>();
  #last = 0;

  constructor(onEnd: () => void) {
    // The receivers of descriptors close them.
    this.#worker = new Worker(new URL("./socket-thread.ts", import.meta.url), {
      env: {},
      execArgv: [],
      trackUnmanagedFds: false,
    });
    this.#worker.unref();
    this.#worker.on("message", (result: SocketResult) => {
      const { resolve, reject } = this.#waiting.get(result.number)!;
      this.#waiting.delete(result.number);
      if (this.#waiting.size === 0) this.#worker.unref();
      if ("fd" in result) resolve(result.fd);
      else reject(Object.assign(new Error(result.error), { code: result.code }));
    });
    let cause: unknown;
    this.#worker.on("error", (error) => {
      cause = error;
    });
    this.#worker.on("exit", () => {
      onEnd();
      const error = new Error("the thread that opens sockets in sandboxes has ended", { cause });
      for (const { reject } of this.#waiting.values()) reject(error);
    });
  }

  open(network: number, kind: SocketKind): Promise<number> {
    const number = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject });
      this.#worker.ref();
      this.#worker.postMessage({ number, network, kind } satisfies SocketRequest);
    });
  }
}
