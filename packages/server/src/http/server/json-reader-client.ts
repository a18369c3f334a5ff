import { Worker } from "node:worker_threads";
import { InvalidInput, type Issue } from "./invalid-input.ts";

/** A parsed text, or what is wrong with it. */
export type Answer = { value: unknown } | { issues: readonly Issue[] };

/** After so long without a text the thread ends, ms. */
const idleMs = 10_000;

/** Parses long JSON texts in a thread of its own, which exists while there are some. */
export class JsonReaderClient {
  #thread: Worker | undefined;
  /** Those whose texts the thread has, in order. */
  readonly #waiting: { resolve: (value: unknown) => void; reject: (error: Error) => void }[] = [];
  #idle: NodeJS.Timeout | undefined;

  /**
   * Parses as `parseJson` does. The bytes may be moved to the thread, after which they are empty
   * here. Throws InvalidInput.
   */
  parse(bytes: Buffer): Promise<unknown> {
    clearTimeout(this.#idle);
    this.#thread ??= this.#start();
    const isWhole = bytes.byteLength === bytes.buffer.byteLength;
    this.#thread.postMessage(bytes, isWhole ? [bytes.buffer as ArrayBuffer] : []);
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  #start(): Worker {
    const thread = new Worker(new URL("./json-reader.ts", import.meta.url), { name: "json-reader" });
    thread.on("message", (answer: Answer) => {
      const { resolve, reject } = this.#waiting.shift()!;
      if ("value" in answer) resolve(answer.value);
      else reject(new InvalidInput(answer.issues));
      if (this.#waiting.length > 0) return;
      this.#idle = setTimeout(() => {
        this.#thread = undefined;
        void thread.terminate();
      }, idleMs).unref();
    });
    const end = (error: Error) => {
      if (this.#thread !== thread) return;
      this.#thread = undefined;
      for (const { reject } of this.#waiting.splice(0)) reject(error);
    };
    thread.on("error", end);
    thread.on("exit", () => end(new Error("The reader of JSON has ended.")));
    thread.unref();
    return thread;
  }
}
