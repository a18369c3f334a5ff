import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import type { ExecRequest, PreparedSpec, SandboxDriver, SandboxProcess } from "../driver.ts";
import type { Sandbox } from "../sandbox.ts";
import type { SandboxRow } from "../sandbox-store.ts";
import type { SandboxRuntimeState } from "./runtime-state.ts";

export interface SandboxHandlesDeps {
  driver: SandboxDriver;
  live: ReadonlyMap<string, SandboxRuntimeState>;
  /** Milliseconds since the epoch. */
  now: () => number;
  onUse: (id: string) => void;
  /** Resolves when the operations on a sandbox that are under way have ended. */
  settled: (id: string) => Promise<void>;
  /** Makes a paused sandbox run. */
  wake: (id: string) => Promise<unknown>;
  /** Variables that every command gets beside its own. */
  environment: (row: SandboxRow) => Record<string, string>;
}

/** Handles of running sandboxes and connections into them, with their use noted. */
export class SandboxHandles {
  readonly #options: SandboxHandlesDeps;

  constructor(options: SandboxHandlesDeps) {
    this.#options = options;
  }

  /** Notes a use. An unknown sandbox is fine. */
  used(id: string): void {
    const live = this.#options.live.get(id);
    if (!live) return;
    live.lastUsedAt = this.#options.now();
    this.#options.onUse(id);
  }

  /** A handle of the incarnation that the record names; `beforeWake` as of `Sandboxes.running`. */
  handle(row: SandboxRow, beforeWake?: () => Promise<void>): Sandbox {
    const { id, incarnation } = row;
    return {
      id,
      incarnation,
      spec: row.spec as PreparedSpec,
      shell: this.#options.driver.shell,
      exec: (command) => {
        const env = { ...this.#options.environment(row), ...command.env };
        return this.#exec(
          id,
          incarnation,
          Object.keys(env).length > 0 ? { ...command, env } : command,
          beforeWake,
        );
      },
    };
  }

  /** Connects to the incarnation of a handle. Throws SandboxFailed, PortUnreachable. */
  async connect({ id, incarnation }: Sandbox, port: number): Promise<Duplex> {
    const { driver, live } = this.#options;
    const connection = await this.#awake(id, incarnation, () => driver.connect(id, port));
    const one = live.get(id);
    if (one?.status !== "RUNNING") {
      connection.destroy();
      throw new PlatformError("SandboxFailed", `The sandbox ${id} does not run any more; try again.`);
    }
    one.connections.set(connection, 0);
    connection.once("close", () => one.connections.delete(connection));
    return connection;
  }

  async #exec(
    id: string,
    incarnation: string,
    command: ExecRequest,
    beforeWake: (() => Promise<void>) | undefined,
  ): Promise<SandboxProcess> {
    const live = this.#current(id, incarnation);
    this.used(id);
    const start = () =>
      this.#awake(id, incarnation, () => this.#options.driver.exec(id, command), beforeWake);
    // A shell on a terminal is there for long; who uses it tells when it is at work.
    if (command.tty) return start();
    live.runningCommands += 1;
    try {
      const process = await start();
      void process.exit.then(() => this.#commandEnded(live));
      return process;
    } catch (error) {
      this.#commandEnded(live);
      throw error;
    }
  }

  #commandEnded(live: SandboxRuntimeState): void {
    live.runningCommands -= 1;
    live.lastUsedAt = this.#options.now();
  }

  /** Throws SandboxFailed where the processes are not those of the incarnation any more. */
  #current(id: string, incarnation: string): SandboxRuntimeState {
    const live = this.#options.live.get(id);
    if (live?.incarnation === incarnation) return live;
    const what = live ? "has been started anew; try again" : "has been deleted";
    throw new PlatformError("SandboxFailed", `The sandbox ${id} ${what}.`);
  }

  /**
   * Has the driver do something in a sandbox. An operation may have paused it meanwhile, or may just be at it: then it is waited for, and the
   * sandbox woken. One whose processes are gone is to be started anew.
   */
  async #awake<T>(
    id: string,
    incarnation: string,
    work: () => Promise<T>,
    beforeWake?: () => Promise<void>,
  ): Promise<T> {
    const { settled, wake } = this.#options;
    try {
      return await work();
    } catch (error) {
      if (!isGone(error)) throw error;
    }
    await settled(id);
    if (beforeWake && this.#current(id, incarnation).status === "PAUSED") await beforeWake();
    if (this.#current(id, incarnation).status === "PAUSED") await wake(id);
    const live = this.#current(id, incarnation);
    try {
      return await work();
    } catch (error) {
      if (!isGone(error)) throw error;
      if (live.status === "RUNNING" && live.incarnation === incarnation) live.incarnation = undefined;
      throw new PlatformError(
        "SandboxFailed",
        `${error.message} The next use brings it back with its files.`,
        { cause: error },
      );
    }
  }
}

function isGone(error: unknown): error is PlatformError {
  return (
    error instanceof PlatformError && (error.code === "SandboxNotRunning" || error.code === "SandboxNotFound")
  );
}
