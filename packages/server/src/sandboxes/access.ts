import type { Duplex } from "node:stream";
import { PlatformError } from "../errors.ts";
import type { SandboxRow } from "../store/store.ts";
import type { ExecRequest, PreparedSpec, SandboxDriver, SandboxProcess } from "./driver.ts";
import type { LiveSandbox } from "./lifecycle/live.ts";
import type { Sandbox } from "./sandbox.ts";

export interface AccessOptions {
  driver: SandboxDriver;
  live: ReadonlyMap<string, LiveSandbox>;
  /** Milliseconds since the epoch. */
  now: () => number;
  onUse: (id: string) => void;
}

/** Handles of running sandboxes and connections into them, with their use noted. */
export class Access {
  readonly #options: AccessOptions;

  constructor(options: AccessOptions) {
    this.#options = options;
  }

  /** Notes a use. An unknown sandbox is fine. */
  used(id: string): void {
    const live = this.#options.live.get(id);
    if (!live) return;
    live.lastUsedAt = this.#options.now();
    this.#options.onUse(id);
  }

  /** A handle of the incarnation that the record names. */
  handle(row: SandboxRow): Sandbox {
    const { id, incarnation } = row;
    return {
      id,
      incarnation,
      spec: row.spec as PreparedSpec,
      shell: this.#options.driver.shell,
      exec: (command) => this.#exec(id, incarnation, command),
    };
  }

  /** Throws SandboxFailed, PortUnreachable. */
  async connect(id: string, port: number): Promise<Duplex> {
    const { driver, live } = this.#options;
    const connection = await driver.connect(id, port).catch((error) => this.#lost(id, error));
    const one = live.get(id);
    if (one?.status !== "RUNNING") {
      connection.destroy();
      throw new PlatformError("SandboxFailed", `The sandbox ${id} does not run any more; try again.`);
    }
    one.connections.set(connection, 0);
    connection.once("close", () => one.connections.delete(connection));
    return connection;
  }

  async #exec(id: string, incarnation: string, command: ExecRequest): Promise<SandboxProcess> {
    const live = this.#options.live.get(id);
    if (live?.incarnation !== incarnation) {
      const what = live ? "has been started anew" : "has been deleted";
      throw new PlatformError("SandboxFailed", `The sandbox ${id} ${what}.`);
    }
    this.used(id);
    // A shell on a terminal is there for long; who uses it tells when it is at work.
    if (command.tty) return this.#options.driver.exec(id, command).catch((error) => this.#lost(id, error));
    live.commands += 1;
    try {
      const process = await this.#options.driver.exec(id, command);
      void process.exit.then(() => this.#commandEnded(live));
      return process;
    } catch (error) {
      this.#commandEnded(live);
      return this.#lost(id, error);
    }
  }

  #commandEnded(live: LiveSandbox): void {
    live.commands -= 1;
    live.lastUsedAt = this.#options.now();
  }

  /** What an error of the driver means: a sandbox that should run and does not is to be started anew. */
  #lost(id: string, error: unknown): never {
    const live = this.#options.live.get(id);
    const gone = error instanceof PlatformError && (error.code === "SandboxNotRunning" || error.code === "SandboxNotFound");
    if (!gone || live?.status !== "RUNNING") throw error;
    live.incarnation = undefined;
    throw new PlatformError("SandboxFailed", `${error.message} The next use brings it back with its files.`, { cause: error });
  }
}
