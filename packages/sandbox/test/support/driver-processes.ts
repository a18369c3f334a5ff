import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { DriverSandbox, PreparedSpec, SandboxSpec, StartRequest } from "../../src/driver.ts";

const script = fileURLToPath(new URL("./driver-process.ts", import.meta.url));

/** A real process that has an `OciDriver` over a folder. */
export class DriverProcess {
  readonly #child: ChildProcess;
  readonly #calls = new Map<number, { resolve: (result: unknown) => void; reject: (error: Error) => void }>();
  readonly #listeners = new Set<(line: string) => void>();
  readonly #ended: Promise<unknown>;
  #last = 0;

  /** `options`: `dir` and `runtime` of the driver, and allowed `registries`. */
  constructor(options: { dir: string; runtime: string; registries?: string[] }) {
    this.#child = spawn(process.execPath, [script, JSON.stringify(options)], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#ended = once(this.#child, "exit").then(() => {
      for (const { reject } of this.#calls.values()) reject(new Error("the process has ended"));
      this.#calls.clear();
    });
    createInterface({ input: this.#child.stdout! }).on("line", (line) => {
      const { number, result, error, progress } = JSON.parse(line);
      if (progress !== undefined) for (const listener of this.#listeners) listener(progress);
      const call = this.#calls.get(number);
      this.#calls.delete(number);
      if (error) call?.reject(Object.assign(new Error(error.message), { code: error.code }));
      else call?.resolve(result);
    });
    this.#child.stdin!.on("error", () => {});
  }

  open = () => this.#call("open");
  prepare = (spec: SandboxSpec) => this.#call("prepare", spec) as Promise<PreparedSpec>;
  start = (request: StartRequest) => this.#call("start", request);
  run = (id: string, command: string) =>
    this.#call("run", id, command) as Promise<{ code: number; out: string; err: string }>;
  pause = (id: string) => this.#call("pause", id);
  resume = (id: string) => this.#call("resume", id);
  stop = (id: string) => this.#call("stop", id);
  remove = (id: string) => this.#call("remove", id);
  snapshot = (id: string, snapshot: string) => this.#call("snapshot", id, snapshot);
  removeSnapshot = (snapshot: string) => this.#call("removeSnapshot", snapshot);
  list = () => this.#call("list") as Promise<DriverSandbox[]>;
  reap = (sandboxes: string[], snapshots: string[]) => this.#call("reap", sandboxes, snapshots);
  close = () => this.#call("close");

  /** Waits for a line of progress that matches. */
  progress(wanted: RegExp): Promise<string> {
    return new Promise((resolve) => {
      const listener = (line: string) => {
        if (!wanted.test(line)) return;
        this.#listeners.delete(listener);
        resolve(line);
      };
      this.#listeners.add(listener);
    });
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#ended;
  }

  #call(method: string, ...args: unknown[]): Promise<unknown> {
    const number = ++this.#last;
    const answer = new Promise<unknown>((resolve, reject) => this.#calls.set(number, { resolve, reject }));
    // A caller may wait for the result only after the process has been killed.
    answer.catch(() => {});
    this.#child.stdin!.write(`${JSON.stringify({ number, method, args })}\n`);
    return answer;
  }
}
