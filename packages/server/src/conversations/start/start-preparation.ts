import { PlatformError } from "@sandpiper/core/errors";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { StartTaskStatus } from "@sandpiper/wire";
import type { StartFailures } from "./start-failures.ts";
import type { StartMessages } from "./start-messages.ts";
import type { Start } from "./start-plans.ts";
import type { StartProjects } from "./start-projects.ts";
import type { StartSandboxes } from "./start-sandboxes.ts";
import type { TaskFeed } from "./task-feed.ts";

/** Maximum attempts when the sandbox restarts in the middle of a start. */
const maxAttempts = 5;

export interface StartPreparationDeps {
  sandboxes: Pick<StartSandboxes, "block" | "enter" | "hold" | "wait" | "watch">;
  projects: StartProjects;
  messages: StartMessages;
  failures: Pick<StartFailures, "end">;
  tasks: Pick<TaskFeed, "update">;
}

/** The part of a start after its conversation is stored, up to READY. */
export class StartPreparation {
  readonly #deps: StartPreparationDeps;

  constructor(deps: StartPreparationDeps) {
    this.#deps = deps;
  }

  /**
   * Waits for the sandbox, prepares the project in it, and sends the messages that wait for it; the
   * task shows the progress. Throws the reason of the failure, or that of the signal.
   */
  async run(start: Start): Promise<void> {
    const { sandboxes, projects, messages, failures } = this.#deps;
    const { signal } = start;
    const { preparesFirst } = start.work;
    // The tools of a run that a client starts wait for the project.
    const endHold = sandboxes.hold(start);
    const release = preparesFirst ? sandboxes.block(start) : () => {};
    try {
      await this.#repeat(start, release);
      await this.#step(start, "READY");
    } catch (error) {
      // The next process resumes the start.
      signal.throwIfAborted();
      await failures.end(start, error);
      throw error;
    } finally {
      release();
      endHold();
    }
    void messages.deliverPending(start);
    if (preparesFirst) return;
    const sandbox = await sandboxes.watch(start).catch(() => undefined);
    if (sandbox) await projects.collectLate(start, sandbox, !(await messages.isEmpty(start)));
  }

  /** Prepares the sandbox and sends the first message; repeats this when the sandbox restarts. */
  async #repeat(start: Start, release: () => void): Promise<void> {
    const { sandboxes } = this.#deps;
    for (let attempt = 1; ; attempt++) {
      const sandbox = await sandboxes.wait(start);
      try {
        await this.#prepare(start, sandbox, release);
        return;
      } catch (error) {
        start.signal.throwIfAborted();
        const now = await sandboxes.wait(start).catch((reason: unknown) => {
          // Why the sandbox was stopped says more than what failed in it.
          throw isStopped(reason) ? reason : error;
        });
        if (attempt === maxAttempts || now.incarnation === sandbox.incarnation) throw error;
      }
    }
  }

  async #prepare(start: Start, sandbox: Sandbox, release: () => void): Promise<void> {
    const { sandboxes, projects, messages } = this.#deps;
    const { message, preparesFirst } = start.work;
    if (preparesFirst) {
      await projects.prepare(start, sandbox);
      release();
    } else {
      await projects.requireRow(start);
      await this.#step(start, "PREPARING_REPOSITORY");
    }
    await sandboxes.enter(start);
    await this.#step(start, "STARTING_CONVERSATION");
    if (preparesFirst && message && !(await messages.isSent(start))) await messages.sendFirst(start);
  }

  async #step({ task, signal }: Start, status: StartTaskStatus): Promise<void> {
    signal.throwIfAborted();
    await this.#deps.tasks.update(task.id, { status, detail: null });
  }
}

function isStopped(error: unknown): boolean {
  return error instanceof PlatformError && error.code === "SandboxFailed";
}
