import { randomUUID } from "node:crypto";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { DriverSandbox, PreparedSpec, SandboxDriver, SandboxSpec } from "../driver.ts";
import type { Egress, ProxiedSandbox } from "../network/api.ts";
import { egressToken } from "../network/environment.ts";
import type { SandboxRow } from "../sandbox-store.ts";
import type { KeptFiles } from "./kept-files.ts";
import { cutConnections, notifyBeforeStop, type SandboxRuntimeState } from "./runtime-state.ts";
import type { UserImages } from "./user-images.ts";

export interface SandboxProcessesDeps {
  driver: SandboxDriver;
  egress: Egress | undefined;
  logger: Pick<Logger, "warn">;
  images: Pick<UserImages, "admit">;
  /** Undefined without shared blobs. */
  kept: KeptFiles | undefined;
  timeouts: {
    /** Maximum time of a start without the preparation of the root, ms. */
    startMs: number;
    /** Maximum time of the preparation of the root, ms. */
    prepareMs: number;
  };
}

/** What a start has to know besides the record. */
export interface StartFacts {
  /** Undefined: the engine is asked. */
  engineState?: DriverSandbox["state"] | undefined;
  /** Throws when another server may own the sandbox, which is then left as it is. */
  requireOwned: () => void;
}

/** Shortest interval between two progress texts in a record, ms. */
const progressIntervalMs = 500;

/** The processes of sandboxes and their network access. */
export class SandboxProcesses {
  readonly #deps: SandboxProcessesDeps;

  constructor(deps: SandboxProcessesDeps) {
    this.#deps = deps;
  }

  /**
   * Prepares the root of a sandbox and reports progress. Throws SandboxSpecUnusable,
   * TooManySandboxes, or the signal's reason.
   */
  async prepare(
    row: SandboxRow,
    spec: SandboxSpec,
    signal: AbortSignal,
    report: (text: string) => void,
  ): Promise<PreparedSpec> {
    const { images } = this.#deps;
    await images.admit(row, spec);
    const prepared = await this.#prepareRoot(row.userId, spec, signal, report);
    await images.admit(row, prepared);
    return prepared;
  }

  async #prepareRoot(
    owner: string,
    spec: SandboxSpec,
    signal: AbortSignal,
    report: (text: string) => void,
  ): Promise<PreparedSpec> {
    const { driver, timeouts } = this.#deps;
    const timeout = AbortSignal.timeout(timeouts.prepareMs);
    const either = AbortSignal.any([signal, timeout]);
    let reportedAt = Number.NEGATIVE_INFINITY;
    const onProgress = (text: string) => {
      if (either.aborted || performance.now() - reportedAt < progressIntervalMs) return;
      reportedAt = performance.now();
      report(text);
    };
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const onAbort = () => reject(either.reason);
    either.addEventListener("abort", onAbort);
    try {
      either.throwIfAborted();
      const work = driver.prepare(spec, { onProgress, signal: either, owner });
      work.catch(() => {});
      return await Promise.race([work, aborted]);
    } catch (error) {
      signal.throwIfAborted();
      if (!timeout.aborted) throw error;
      throw new PlatformError("SpecPrepareTimeout", { id: spec.id, seconds: timeouts.prepareMs / 1000 });
    } finally {
      either.removeEventListener("abort", onAbort);
    }
  }

  /**
   * Restores the files of a sandbox, or of the snapshot with which it begins, when they are only in
   * the shared blobs. Throws BlobsUnavailable, BlobLost, SandboxFailed, the signal's reason.
   */
  async restoreFiles(
    { id, userId, snapshotId }: SandboxRow,
    spec: PreparedSpec,
    signal: AbortSignal,
    report: (text: string) => void,
  ): Promise<void> {
    const of =
      snapshotId === null ? { kind: "sandbox" as const, id } : { kind: "snapshot" as const, id: snapshotId };
    await this.#deps.kept?.restore(of, { spec, userId, signal, report });
  }

  /**
   * Makes the processes run, from whatever state they are in. Returns their incarnation (the
   * record's when they are the old ones) and the spec with which they run: a start may allow more
   * secrets than the one before. Throws SandboxFailed, and what `requireOwned` throws.
   */
  async start(
    state: SandboxRuntimeState,
    row: SandboxRow,
    spec: PreparedSpec,
    { engineState, requireOwned }: StartFacts,
  ): Promise<{ incarnation: string; spec: PreparedSpec }> {
    const { driver, egress } = this.#deps;
    const { id } = row;
    const found = engineState ?? (await this.#engineState(state));
    requireOwned();
    const resumed = found === "paused" ? await this.#resume(id) : found === "running";
    // Processes found running after a start timed out, or by a new server, may lack their network.
    if (resumed && (state.incarnation !== undefined || (await this.#tryAttach(row, spec, requireOwned))))
      return { incarnation: row.incarnation, spec };
    await this.#deps.kept?.cancel({ kind: "sandbox", id });
    state.incarnation = undefined;
    // Only the engine knows the outcome of a start that fails or times out.
    state.stopped = false;
    requireOwned();
    egress?.detach(id);
    const network = egress?.startPolicy(toProxied(row, spec)) ?? spec.network;
    const started = network === spec.network ? spec : { ...spec, network };
    await this.#withStartTimeout(this.#startProcesses(row, started));
    requireOwned();
    await this.attach(row, started).catch(async (error) => {
      requireOwned();
      await driver.stop(id).catch(() => {});
      throw error;
    });
    return { incarnation: randomUUID(), spec: started };
  }

  /** Gives a running sandbox the network access of its policy. */
  async attach(row: SandboxRow, spec: PreparedSpec): Promise<void> {
    const { driver, egress } = this.#deps;
    await egress?.attach(toProxied(row, spec), (port, accept) => driver.listen(row.id, port, accept));
  }

  /**
   * Placeholders of secrets that were added after the start. Variables of the spec take precedence.
   */
  async environment(row: SandboxRow, spec: PreparedSpec): Promise<Record<string, string>> {
    const added = await this.#deps.egress?.secretEnvironment(toProxied(row, spec));
    const variables = Object.entries(added ?? {});
    return Object.fromEntries(variables.filter(([name]) => !Object.hasOwn(spec.env, name)));
  }

  /** Stops the processes from any state, after their shells have saved their state. */
  async stop(state: SandboxRuntimeState): Promise<void> {
    await this.beforeStop(state);
    await this.#deps.driver.stop(state.id);
    this.markStopped(state);
  }

  /** Lets lease holders save what must outlive the processes; resumes frozen processes for that. */
  async beforeStop(state: SandboxRuntimeState): Promise<void> {
    if (state.incarnation === undefined || state.leases.size === 0) return;
    if (state.status === "PAUSED") await this.#deps.driver.resume(state.id).catch(() => {});
    await notifyBeforeStop(state);
  }

  /** Stops the processes until the next use, and keeps a copy of the files. */
  async hibernate(state: SandboxRuntimeState): Promise<void> {
    await this.stop(state);
    this.#deps.kept?.keepSoon({ kind: "sandbox", id: state.id }, state.userId);
  }

  /** Records that the processes were ended. */
  markStopped(state: SandboxRuntimeState): void {
    state.incarnation = undefined;
    state.stopped = true;
    state.hasSlot = false;
    cutConnections(state);
    this.#deps.egress?.detach(state.id);
  }

  /** Kills and removes everything. The reaper retries a failed removal. */
  async remove(id: string): Promise<void> {
    const { driver, egress, logger } = this.#deps;
    try {
      await this.#deps.kept?.cancel({ kind: "sandbox", id });
      await egress?.forget(id);
      await driver.remove(id);
    } catch (error) {
      logger.warn({ sandbox: id, reason: errorText(error) }, "sandbox removal failed, will be retried");
    }
  }

  /** Attaches found processes; stops them (false) when one occupies the proxy's port. */
  async #tryAttach(row: SandboxRow, spec: PreparedSpec, requireOwned: () => void): Promise<boolean> {
    requireOwned();
    try {
      await this.attach(row, spec);
      return true;
    } catch (error) {
      if (!(error instanceof PlatformError && error.code === "PortUnreachable")) throw error;
      requireOwned();
      await this.#deps.driver.stop(row.id);
      return false;
    }
  }

  async #engineState(state: SandboxRuntimeState): Promise<DriverSandbox["state"]> {
    if (state.stopped) return "stopped";
    if (state.status === "PAUSED" && state.incarnation !== undefined) return "paused";
    return this.#findState(state.id);
  }

  async #findState(id: string): Promise<DriverSandbox["state"]> {
    return (await this.#deps.driver.list()).find((one) => one.id === id)?.state ?? "stopped";
  }

  /** Returns false when there are no processes to resume. */
  async #resume(id: string): Promise<boolean> {
    try {
      await this.#deps.driver.resume(id);
      return true;
    } catch (error) {
      if (error instanceof PlatformError && error.code === "SandboxNotRunning") return false;
      throw error;
    }
  }

  async #startProcesses(row: SandboxRow, spec: PreparedSpec): Promise<void> {
    const { driver, egress } = this.#deps;
    const env = { ...(await egress?.environment(toProxied(row, spec))), ...spec.env };
    const files = egress?.files({ policy: spec.network }) ?? [];
    const request = {
      ...{ id: row.id, spec: { ...spec, env } },
      ...(row.snapshotId !== null && { snapshot: row.snapshotId }),
      ...(files.length > 0 && { files }),
    };
    await driver.start(request).catch(async (error) => {
      // A failed start leaves nothing running, so an earlier owner has ended its start of this
      // sandbox late.
      if ((await this.#findState(row.id)) !== "running") throw error;
    });
  }

  async #withStartTimeout(start: Promise<void>): Promise<void> {
    const { startMs } = this.#deps.timeouts;
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => reject(new PlatformError("SandboxStartTimeout", { seconds: startMs / 1000 })),
      startMs,
    );
    try {
      await Promise.race([start, late]);
    } finally {
      clearTimeout(timer);
      // A failure after the deadline has no caller; a retry finds the sandbox running, or starts
      // it.
      start.catch(() => {});
    }
  }
}

function toProxied(row: SandboxRow, spec: PreparedSpec): ProxiedSandbox {
  return { id: row.id, userId: row.userId, policy: spec.network, token: egressToken(row.sessionKey) };
}
