import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** Watches from another process how quickly a server answers `/health`. */
export class Health {
  readonly #child: ChildProcess;

  constructor(url: string) {
    this.#child = fork(fileURLToPath(new URL("health-watcher.ts", import.meta.url)), [url]);
  }

  /**
   * Returns, since the last call, the number of answers, their 99th percentile (ms) and the 99th
   * percentile of the watcher's timer delay (ms). Throws when an answer failed.
   */
  async look(): Promise<{ count: number; p99: number; lag: number }> {
    this.#child.send("look");
    const [message] = (await once(this.#child, "message")) as [
      { times: number[]; lags: number[] } | { error: string },
    ];
    if ("error" in message) throw new Error(`/health failed: ${message.error}`);
    return { count: message.times.length, p99: percentile99(message.times), lag: percentile99(message.lags) };
  }

  end(): void {
    this.#child.disconnect();
  }
}

function percentile99(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? 0;
}
