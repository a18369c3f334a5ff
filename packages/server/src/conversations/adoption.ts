import { setTimeout as sleep } from "node:timers/promises";
import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { Callbacks } from "../callbacks/api.ts";
import type { SandboxScope } from "../store/sandbox-scope.ts";
import type { Store } from "../store/store.ts";
import type { Goals } from "./commands/goals.ts";
import type { PendingMessages } from "./commands/pending.ts";
import type { Custody } from "./custody.ts";
import type { ProjectContexts } from "./project/project-context.ts";
import type { Release } from "./release.ts";
import { sortForWake } from "./run/run-queue.ts";
import type { Runner } from "./run/runner.ts";
import { failSuspect, findSuspects } from "./run/unclean-ends.ts";
import type { StartServices } from "./start/wiring.ts";

/** Delays before the attempts to repeat a failed step, ms; the last delay repeats. */
const retryMs = [1_000, 2_000, 5_000, 15_000];

export interface AdoptionDeps {
  store: Pick<Store, "conversations" | "events">;
  runner: Pick<Runner, "isAwake" | "isWaiting" | "wake">;
  /** Services that continue the work that is not a run. */
  others: {
    callbacks: Pick<Callbacks, "adopt">;
    pending: Pick<PendingMessages, "recover">;
    starting: Pick<StartServices, "adoptLeft" | "recover">;
    goals: Pick<Goals, "adopt">;
  };
  place: {
    custody: Pick<Custody, "isReleased" | "take">;
    contexts: Pick<ProjectContexts, "forget">;
    release: Pick<Release, "over">;
  };
  logger: Logger;
}

type Step = [name: string, work: (scope: SandboxScope) => Promise<void>];

/** Continues the conversations that an earlier server or another node has left. */
export class Adoption {
  readonly #deps: AdoptionDeps;
  readonly #closing = new AbortController();
  readonly #steps: readonly Step[];
  /** Whether this server, which is alone, has counted the unclean end of the server before it. */
  #hasCounted = false;

  constructor(deps: AdoptionDeps) {
    this.#deps = deps;
    const { pending, starting, goals, callbacks } = deps.others;
    this.#steps = [
      ["callbacks", (scope) => callbacks.adopt(scope)],
      ["pending messages", (scope) => pending.recover(scope)],
      ["starts", (scope) => starting.recover(scope)],
      ["runs", (scope) => this.#wakeRunning(scope)],
      ["goals", (scope) => goals.adopt(scope)],
    ];
  }

  /**
   * Continues callbacks, starts, runs, goals and pending messages, and leaves alone what continues
   * already. Never rejects: the server repeats a failed step in the background, and a use of the
   * conversation does so too.
   */
  async adopt(scope: SandboxScope, losses?: ReadonlyMap<string, string>): Promise<void> {
    if (scope !== "all") {
      if (scope.length === 0) return;
      const { custody, contexts, release } = this.#deps.place;
      await release.over(scope);
      custody.take(scope, losses);
      contexts.forget();
    }
    const failed = await this.#attempt(this.#steps, scope);
    if (failed.length > 0) void this.#repeat(failed, scope);
  }

  /** See `Conversations.adoptStarts`. */
  async adoptStarts(): Promise<void> {
    const { others, logger } = this.#deps;
    await others.starting.adoptLeft().catch((error: unknown) => {
      logger.warn({ reason: errorText(error) }, "this node could not look for starts whose node has ended");
    });
  }

  close(): void {
    this.#closing.abort();
  }

  async #repeat(failed: readonly Step[], scope: SandboxScope): Promise<void> {
    const { signal } = this.#closing;
    let left = failed;
    for (let attempt = 0; left.length > 0; attempt++) {
      const delay = retryMs[Math.min(attempt, retryMs.length - 1)];
      await sleep(delay, undefined, { signal, ref: false }).catch(() => {});
      if (signal.aborted) return;
      left = await this.#attempt(left, scope);
    }
  }

  /** Runs the steps and returns those that failed. */
  async #attempt(steps: readonly Step[], scope: SandboxScope): Promise<Step[]> {
    const { custody } = this.#deps.place;
    const here = scope === "all" ? scope : scope.filter((id) => !custody.isReleased(id));
    if (here.length === 0) return [];
    const failed: Step[] = [];
    for (const step of steps) {
      const [name, work] = step;
      if (this.#closing.signal.aborted) return [];
      await work(here).catch((error: unknown) => {
        failed.push(step);
        this.#deps.logger.warn({ reason: errorText(error) }, `${name} could not be continued; trying again`);
      });
    }
    return failed;
  }

  async #wakeRunning(scope: SandboxScope): Promise<void> {
    const { store, runner, logger } = this.#deps;
    const rows = (await store.conversations.listRunning(scope)).filter(
      (row) => !row.config.external && !runner.isAwake(row.id) && !runner.isWaiting(row),
    );
    if (scope === "all" && !this.#hasCounted) {
      await store.conversations.countUncleanEnds();
      // A repetition of this step must not count again.
      this.#hasCounted = true;
    }
    if (rows.length === 0) return;
    const ids = (await sortForWake(rows, store.events)).map(({ id }) => id);
    const suspects = await findSuspects(store, ids);
    for (const id of ids) if (!suspects.has(id)) await runner.wake(id);
    for (const id of ids) if (suspects.has(id)) await failSuspect({ store, logger }, id);
  }
}
