import { randomBytes } from "node:crypto";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { SandboxFile, StartRequest } from "../../../driver.ts";
import { idPattern } from "../../common/commands.ts";
import type { Listeners } from "../../common/sockets/listeners.ts";
import type { ProcessGroups } from "../cgroup/process-groups.ts";
import type { SeccompFilter, TrialResult } from "../launch/seccomp-filter.ts";
import { trialSpec } from "../launch/trial-spec.ts";
import type { Turn, Turns } from "../launch/turns.ts";
import type { StoredSandbox } from "../storage/records.ts";
import type { SandboxFiles } from "../storage/sandbox-files.ts";
import type { OciContainers } from "./containers.ts";
import type { Executor } from "./exec.ts";
import { stopGroup } from "./stop.ts";

export interface LifecycleDeps {
  files: SandboxFiles;
  containers: OciContainers;
  executor: Executor;
  groups: ProcessGroups;
  listeners: Listeners;
  turns: Turns;
}

/** How a root is prepared for a start. */
interface Injected {
  isNew: boolean;
  files: SandboxFile[];
}

/**
 * Starts and ends sandboxes, each in a turn of its own. A start or end whose turn was taken away
 * changes nothing more, because the sandbox may run again by then.
 */
export class Lifecycle {
  readonly #deps: LifecycleDeps;
  readonly #trials = new Set<string>();

  constructor(deps: LifecycleDeps) {
    this.#deps = deps;
  }

  /** See `SandboxDriver.start`. */
  async start({ id, spec, snapshot, files: injected = [] }: StartRequest, seccomp: SeccompFilter) {
    const { files, containers, groups, turns } = this.#deps;
    if (!idPattern.test(id)) throw new PlatformError("SandboxIdInvalid", { id });
    await turns.run(id, async (turn) => {
      const known = files.get(id);
      // Nobody knows whether the processes of a start that did not end are complete.
      const isWhole = !turn.isTaken && !containers.isStarting(id);
      if (known && isWhole && groups.get(id).state() !== "gone")
        throw new PlatformError("SandboxAlreadyRunning", { id });
      await this.#end(id, turn);
      try {
        const record = known ? files.renew(id, known, spec) : files.create(id, spec, snapshot);
        await this.#run(id, turn, { record, seccomp, isNew: !known, files: injected });
      } catch (error) {
        turn.require();
        // The files of a sandbox that ran before are its user's work and stay.
        if (known) await this.#end(id, turn);
        else await this.#remove(id, turn);
        throw error instanceof PlatformError
          ? error
          : new PlatformError("SandboxStartFailed", { reason: errorText(error) });
      }
    });
  }

  /** See `SandboxDriver.stop`. `afterEnd` is called in the same turn. */
  async stop(id: string, record: StoredSandbox, afterEnd = () => {}): Promise<void> {
    const { files, groups, turns } = this.#deps;
    await turns.run(id, async (turn) => {
      const check = () => turn.require();
      await stopGroup(groups.get(id), { hasInit: record.spec.command === null, check });
      await this.#end(id, turn);
      files.forget(id);
      afterEnd();
    });
  }

  /** See `SandboxDriver.remove`. */
  async remove(id: string): Promise<void> {
    if (idPattern.test(id)) await this.#deps.turns.run(id, (turn) => this.#remove(id, turn));
  }

  /** Ends what processes were starting that have ended. */
  async endInterrupted(): Promise<void> {
    const { containers, turns } = this.#deps;
    for (const id of containers.interruptedStarts())
      await turns
        .run(id, async (turn) => {
          if (containers.interruptedStarts().includes(id)) await this.#end(id, turn);
        })
        // The next start or end of the sandbox reports the failure.
        .catch(() => {});
  }

  /** True for a sandbox of `runTrial`. */
  isTrial(id: string): boolean {
    return this.#trials.has(id);
  }

  /** Starts an idle sandbox to inspect what the runtime does with a filter. */
  async runTrial(seccomp: SeccompFilter): Promise<TrialResult> {
    const { files, containers, turns } = this.#deps;
    const id = `trial-${randomBytes(8).toString("hex")}`;
    this.#trials.add(id);
    try {
      return await turns.run(id, async (turn) => {
        try {
          const record = files.create(id, trialSpec, undefined);
          await this.#run(id, turn, { record, seccomp, isNew: true, files: [] });
          return containers.inspectFilter(id);
        } finally {
          await this.#remove(id, turn);
        }
      });
    } finally {
      this.#trials.delete(id);
    }
  }

  async #run(
    id: string,
    turn: Turn,
    start: Injected & { record: StoredSandbox; seccomp: SeccompFilter },
  ): Promise<void> {
    const { containers, executor } = this.#deps;
    await containers.start(id, { ...start, binds: executor.prepareBinds(id) }, turn);
  }

  async #remove(id: string, turn: Turn): Promise<void> {
    await this.#end(id, turn);
    await this.#deps.files.remove(id);
  }

  /** Ends the processes, if any. The files stay. */
  async #end(id: string, turn: Turn): Promise<void> {
    const { listeners, containers, executor } = this.#deps;
    listeners.close(id);
    await containers.end(id, turn);
    executor.release(id);
  }
}
