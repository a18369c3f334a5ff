import { randomUUID } from "node:crypto";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { DriverSandbox, PreparedSpec, SandboxDriver, SandboxSpec } from "../driver.ts";
import type { Egress } from "../network/api.ts";
import { egressToken } from "../network/environment.ts";
import type { SandboxRow } from "../sandbox-store.ts";
import { cutConnections, notifyBeforeStop, type SandboxRuntimeState } from "./runtime-state.ts";

export interface SandboxProcessesDeps {
  driver: SandboxDriver;
  egress: Egress | undefined;
  logger: Pick<Logger, "warn">;
  /** After this time a start counts as failed, ms. The preparation of the root does not count. */
  startTimeoutMs: number;
  /** After this time a preparation counts as failed, ms. */
  prepareTimeoutMs: number;
}

/** How often a record shows how a preparation goes on, ms. */
const progressMs = 500;

/** The processes of sandboxes and their way out: makes a record's sandbox run, and ends it. */
export class SandboxProcesses {
  readonly #options: SandboxProcessesDeps;

  constructor(options: SandboxProcessesDeps) {
    this.#options = options;
  }

  /** Makes the root of a spec ready. `show` gets some of the lines that tell how it goes on. Throws SandboxSpecUnusable, or the signal's reason. */
  async prepare(spec: SandboxSpec, signal: AbortSignal, show: (text: string) => void): Promise<PreparedSpec> {
    const { driver, prepareTimeoutMs } = this.#options;
    const late = AbortSignal.timeout(prepareTimeoutMs);
    const either = AbortSignal.any([signal, late]);
    let shownAt = Number.NEGATIVE_INFINITY;
    const onProgress = (text: string) => {
      if (either.aborted || performance.now() - shownAt < progressMs) return;
      shownAt = performance.now();
      show(text);
    };
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const onAbort = () => reject(either.reason);
    either.addEventListener("abort", onAbort);
    try {
      either.throwIfAborted();
      const work = driver.prepare(spec, { onProgress, signal: either });
      work.catch(() => {});
      return await Promise.race([work, aborted]);
    } catch (error) {
      signal.throwIfAborted();
      if (!late.aborted) throw error;
      const reason = `The spec ${spec.id} was not ready within ${prepareTimeoutMs / 1000} s; look at the connection to its registry, then resume the sandbox.`;
      throw new PlatformError("SandboxSpecUnusable", reason);
    } finally {
      either.removeEventListener("abort", onAbort);
    }
  }

  /**
   * Makes the processes run, from whatever state they are in. Gives their incarnation, which is the record's where they are the old ones, and the
   * spec with which they run: a start may let more secrets out than the one before.
   */
  async bringUp(
    live: SandboxRuntimeState,
    row: SandboxRow,
    spec: PreparedSpec,
    known?: DriverSandbox["state"],
  ): Promise<{ incarnation: string; spec: PreparedSpec }> {
    const { driver } = this.#options;
    const { id } = row;
    const state = known ?? (await this.#state(live));
    const resumed = state === "paused" ? await this.#resume(id) : state === "running";
    // Found running after a start that took too long, or by a new server, it may lack its way out.
    if (resumed && (live.incarnation !== undefined || (await this.#attached(row, spec))))
      return { incarnation: row.incarnation, spec };
    live.incarnation = undefined;
    // What comes of a start that fails or takes too long, only the engine knows.
    live.stopped = false;
    this.#options.egress?.detach(id);
    const network = this.#options.egress?.startPolicy(proxied(row, spec)) ?? spec.network;
    const started = network === spec.network ? spec : { ...spec, network };
    await this.#deadline(this.#start(row, started));
    await this.attach(row, started).catch(async (error) => {
      await driver.stop(id).catch(() => {});
      throw error;
    });
    return { incarnation: randomUUID(), spec: started };
  }

  /** Lets a sandbox out as its policy says. */
  async attach(row: SandboxRow, spec: PreparedSpec): Promise<void> {
    const { driver, egress } = this.#options;
    await egress?.attach(proxied(row, spec), (port, accept) => driver.listen(row.id, port, accept));
  }

  /** Variables that a running sandbox may lack: placeholders of secrets that came after its start. Those of its spec go before them. */
  environment(row: SandboxRow, spec: PreparedSpec): Record<string, string> {
    const variables = Object.entries(this.#options.egress?.secretEnvironment(proxied(row, spec)) ?? {});
    return Object.fromEntries(variables.filter(([name]) => !Object.hasOwn(spec.env, name)));
  }

  /** Whether the next start lets secrets out that the one before did not. */
  lacksSecrets(row: SandboxRow, spec: PreparedSpec): boolean {
    const { egress } = this.#options;
    return egress !== undefined && egress.startPolicy(proxied(row, spec)) !== spec.network;
  }

  /** Gives found processes their way out. They are ended where one of them sits on the proxy's port; false then. */
  async #attached(row: SandboxRow, spec: PreparedSpec): Promise<boolean> {
    try {
      await this.attach(row, spec);
      return true;
    } catch (error) {
      if (!(error instanceof PlatformError && error.code === "PortUnreachable")) throw error;
      await this.#options.driver.stop(row.id);
      return false;
    }
  }

  /** Ends the processes, with their shells' state kept. From a pause too. */
  async stop(live: SandboxRuntimeState): Promise<void> {
    const { driver } = this.#options;
    await this.beforeStop(live);
    await driver.stop(live.id);
    this.ended(live);
  }

  /** Lets the occupants write what has to outlive the processes; frozen ones are let go for that. */
  async beforeStop(live: SandboxRuntimeState): Promise<void> {
    if (live.incarnation === undefined || live.leases.size === 0) return;
    if (live.status === "PAUSED") await this.#options.driver.resume(live.id).catch(() => {});
    await notifyBeforeStop(live);
  }

  /** The processes were ended on purpose. */
  ended(live: SandboxRuntimeState): void {
    live.incarnation = undefined;
    live.stopped = true;
    live.hasSlot = false;
    cutConnections(live);
    this.#options.egress?.detach(live.id);
  }

  /** Kills and removes everything. What cannot be removed is tried again from time to time. */
  async remove(id: string): Promise<void> {
    const { driver, egress, logger } = this.#options;
    try {
      await egress?.forget(id);
      await driver.remove(id);
    } catch (error) {
      logger.warn(
        { sandbox: id, reason: errorText(error) },
        "a sandbox could not be removed; this is tried again",
      );
    }
  }

  async #state(live: SandboxRuntimeState): Promise<DriverSandbox["state"]> {
    if (live.stopped) return "stopped";
    if (live.status === "PAUSED" && live.incarnation !== undefined) return "paused";
    return (await this.#options.driver.list()).find(({ id }) => id === live.id)?.state ?? "stopped";
  }

  /** False when there is nothing to resume any more. */
  async #resume(id: string): Promise<boolean> {
    try {
      await this.#options.driver.resume(id);
      return true;
    } catch (error) {
      if (error instanceof PlatformError && error.code === "SandboxNotRunning") return false;
      throw error;
    }
  }

  async #start(row: SandboxRow, spec: PreparedSpec): Promise<void> {
    const { driver, egress } = this.#options;
    const env = { ...egress?.environment(proxied(row, spec)), ...spec.env };
    const files = egress?.files({ policy: spec.network }) ?? [];
    await driver.start({
      id: row.id,
      spec: { ...spec, env },
      ...(row.snapshotId !== null && { snapshot: row.snapshotId }),
      ...(files.length > 0 && { files }),
    });
  }

  async #deadline(work: Promise<void>): Promise<void> {
    const { startTimeoutMs } = this.#options;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const reason = `The sandbox did not start within ${startTimeoutMs / 1000} s; look at the server's log, and at the load and free memory of the machine.`;
      timer = setTimeout(() => reject(new PlatformError("SandboxFailed", reason)), startTimeoutMs);
    });
    try {
      await Promise.race([work, late]);
    } finally {
      clearTimeout(timer);
      // What comes after the deadline is nobody's; a retry finds the sandbox running, or starts it.
      work.catch(() => {});
    }
  }
}

function proxied(row: SandboxRow, spec: PreparedSpec) {
  return { id: row.id, userId: row.userId, policy: spec.network, token: egressToken(row.sessionKey) };
}
