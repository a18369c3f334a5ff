import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import type { ExecRequest, PreparedSpec, SandboxDriver, SandboxProcess } from "../driver.ts";
import type { Egress } from "../network/api.ts";
import type { Sandbox } from "../sandbox.ts";
import type { SandboxRow } from "../sandbox-store.ts";
import type { SandboxRuntimeState } from "./runtime-state.ts";
import type { SandboxUse } from "./use.ts";

export interface SandboxHandlesDeps {
  driver: Pick<SandboxDriver, "exec" | "connect" | "shell">;
  states: ReadonlyMap<string, SandboxRuntimeState>;
  use: SandboxUse;
  /** Resolves when the pending operations on a sandbox have ended. */
  settled: (id: string) => Promise<void>;
  /** Makes a paused sandbox run. */
  wake: (id: string) => Promise<unknown>;
  /** What handles tell of a sandbox. */
  facts: {
    /** Variables that every command gets in addition to its own. */
    environment: (row: SandboxRow) => Promise<Record<string, string>>;
    watchProblems?: Egress["watchProblems"] | undefined;
    /** Bytes that its files may take at most. */
    diskRoom: (row: SandboxRow) => number;
  };
}

/** Limit of the calls of one use while others pause the sandbox again and again. */
const maxCalls = 100;

/** Handles of running sandboxes, and connections into them. Both count as use. */
export class SandboxHandles {
  readonly #deps: SandboxHandlesDeps;

  constructor(deps: SandboxHandlesDeps) {
    this.#deps = deps;
  }

  /** A handle of the incarnation in the record; `beforeWake` as in `Sandboxes.running`. */
  open(row: SandboxRow, beforeWake?: () => Promise<void>): Sandbox {
    const { id, incarnation } = row;
    const { watchProblems, diskRoom } = this.#deps.facts;
    return {
      id,
      incarnation,
      spec: row.spec as PreparedSpec,
      shell: this.#deps.driver.shell,
      diskRoom: () => diskRoom(row),
      exec: (command) => this.#exec(row, command, beforeWake),
      ...(watchProblems && { watchNetwork: () => watchProblems(id) }),
    };
  }

  /** Connects to the incarnation of a handle. Throws SandboxFailed, PortUnreachable. */
  async connect(sandbox: Sandbox, port: number): Promise<Duplex> {
    const { id } = sandbox;
    const connection = await this.#callAwake(sandbox, () => this.#deps.driver.connect(id, port));
    const state = this.#deps.states.get(id);
    if (state?.status !== "RUNNING") {
      connection.destroy();
      throw new PlatformError("SandboxNoLongerRuns", { id });
    }
    state.connections.set(connection, 0);
    connection.once("close", () => state.connections.delete(connection));
    return connection;
  }

  async #exec(
    row: SandboxRow,
    command: ExecRequest,
    beforeWake: (() => Promise<void>) | undefined,
  ): Promise<SandboxProcess> {
    const state = this.#current(row);
    this.#deps.use.note(row.id);
    const start = async () => {
      const env = { ...(await this.#deps.facts.environment(row)), ...command.env };
      const request = Object.keys(env).length > 0 ? { ...command, env } : command;
      this.#current(row);
      return this.#callAwake(row, () => this.#deps.driver.exec(row.id, request), beforeWake);
    };
    // A shell stays open while idle; its owner reports activity by a lease.
    if (command.tty || command.isSession) return start();
    state.runningCommands += 1;
    const end = () => {
      state.runningCommands -= 1;
      this.#deps.use.noteEnd(state);
    };
    try {
      const process = await start();
      void process.exit.then(end);
      return process;
    } catch (error) {
      end();
      throw error;
    }
  }

  /**
   * Throws SandboxFailed when the processes are no longer those of the incarnation, and
   * SandboxNotFound when the sandbox was deleted.
   */
  #current({ id, incarnation }: Pick<Sandbox, "id" | "incarnation">): SandboxRuntimeState {
    const state = this.#deps.states.get(id);
    if (state?.incarnation === incarnation) return state;
    throw new PlatformError(state ? "SandboxRestarted" : "SandboxDeleted", { id });
  }

  /**
   * Calls the driver. When an operation has paused the sandbox or is about to, waits for it, wakes
   * the sandbox and calls again, also when the next pause comes at once. When the processes are
   * gone, the next use starts the sandbox anew.
   */
  async #callAwake<T>(
    sandbox: Pick<Sandbox, "id" | "incarnation">,
    call: () => Promise<T>,
    beforeWake?: () => Promise<void>,
  ): Promise<T> {
    const { settled, wake } = this.#deps;
    for (let calls = 1; ; calls++) {
      const before = { ...this.#deps.states.get(sandbox.id) };
      const failure = await call().catch((error: unknown) => {
        if (!isNotRunning(error)) throw error;
        return error;
      });
      if (!(failure instanceof PlatformError)) return failure;
      await settled(sandbox.id);
      if (beforeWake && this.#current(sandbox).status === "PAUSED") await beforeWake();
      if (this.#current(sandbox).status === "PAUSED") await wake(sandbox.id);
      const state = this.#current(sandbox);
      const wasAwake = before.status === "RUNNING" && before.pauseSteps === state.pauseSteps;
      if (!wasAwake && calls < maxCalls) continue;
      if (wasAwake && state.status === "RUNNING") {
        state.incarnation = undefined;
        state.hasSlot = false;
      }
      throw new PlatformError("SandboxProcessesGone", { reason: failure.message }, { cause: failure });
    }
  }
}

function isNotRunning(error: unknown): error is PlatformError {
  return (
    error instanceof PlatformError && (error.code === "SandboxNotRunning" || error.code === "SandboxNotFound")
  );
}
