import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** Watches from another process how quickly a server answers `/health`. */
export class Health {
  readonly #child: ChildProcess;

  constructor(url: string) {
    this.#child = fork(fileURLToPath(new URL("health-watcher.ts", import.meta.url)), [url]);
  }

  /** The answers since the last call of this, and the time that 99 of 100 of them did not exceed, ms. Throws when one failed. */
  async look(): Promise<{ count: number; p99: number }> {
    this.#child.send("look");
    const [message] = (await once(this.#child, "message")) as [{ times: number[] } | { error: string }];
    if ("error" in message) throw new Error(`/health failed: ${message.error}`);
    const times = message.times.sort((a, b) => a - b);
    return { count: times.length, p99: times[Math.floor(times.length * 0.99)] ?? 0 };
  }

  end(): void {
    this.#child.disconnect();
  }
}
