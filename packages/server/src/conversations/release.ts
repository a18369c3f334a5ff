import { setTimeout as sleep } from "node:timers/promises";
import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { Callbacks } from "../callbacks/api.ts";
import type { Store } from "../store/store.ts";
import type { Toolsets } from "./agent/toolset.ts";
import type { Custody } from "./custody.ts";
import type { Hub } from "./log/hub.ts";
import type { ProjectContexts } from "./project/project-context.ts";
import type { Announcements } from "./run/announcements.ts";
import type { ConversationUsage } from "./run/conversation-usage.ts";
import type { Runner } from "./run/runner.ts";
import type { SessionEnds } from "./run/session-ends.ts";
import type { Workspaces } from "./run/workspaces.ts";
import type { StartServices } from "./start/wiring.ts";

/** How long each part of a release may take once the runs have ended, ms. */
const partMs = 2_500;

/** Delay until a server that has lost sandboxes corrects their count of unclean ends, ms. */
const countAfterMs = 5_000;
const maxCountAttempts = 60;

export interface ReleaseDeps {
  custody: Pick<Custody, "leave">;
  runs: {
    runner: Pick<Runner, "release">;
    workspaces: Pick<Workspaces, "rowsIn" | "leave">;
    sessionEnds: Pick<SessionEnds, "leave">;
    toolsets: Pick<Toolsets, "leave">;
    usage: Pick<ConversationUsage, "forget">;
    contexts: Pick<ProjectContexts, "forget">;
  };
  feed: { hub: Pick<Hub, "leave">; announcements: Pick<Announcements, "forget"> };
  starting: Pick<StartServices, "leave">;
  callbacks: Pick<Callbacks, "release">;
  after: { store: Pick<Store, "nodes">; logger: Logger };
}

/** Ends everything live about conversations in sandboxes that go to another node. */
export class Release {
  readonly #deps: ReleaseDeps;
  /** The last release of each sandbox, while it is in progress. */
  readonly #active = new Map<string, Promise<void>>();

  constructor(deps: ReleaseDeps) {
    this.#deps = deps;
  }

  /** Does what `Conversations.release` says. */
  async release(sandboxIds: readonly string[], how: { lost: boolean; graceMs: number }): Promise<void> {
    if (sandboxIds.length === 0) return;
    const work = this.#release(new Set(sandboxIds), how);
    for (const id of sandboxIds) this.#active.set(id, work);
    await work;
    for (const id of sandboxIds) if (this.#active.get(id) === work) this.#active.delete(id);
  }

  /** Resolves when no release of the sandboxes is in progress. */
  async over(sandboxIds: readonly string[]): Promise<void> {
    await Promise.all(sandboxIds.map((id) => this.#active.get(id)));
  }

  async #release(ids: ReadonlySet<string>, { lost, graceMs }: { lost: boolean; graceMs: number }) {
    const { custody, runs, feed, starting, callbacks } = this.#deps;
    custody.leave(ids);
    starting.leave(ids);
    await runs.runner.release(runs.workspaces.rowsIn(ids), lost ? 0 : graceMs);
    const parts: Promise<void>[] = [runs.sessionEnds.leave(ids, lost), callbacks.release([...ids])];
    if (lost) void this.#takeBackEnds([...ids]);
    await Promise.race([Promise.all(parts.map((part) => part.catch((error) => this.#warn(error)))), pause()]);
    const left = runs.workspaces.rowsIn(ids).map(({ id }) => id);
    runs.workspaces.leave(ids);
    runs.toolsets.leave(ids);
    runs.contexts.forget();
    const followed = feed.hub.leave(ids);
    for (const id of new Set([...left, ...followed])) {
      runs.usage.forget(id);
      feed.announcements.forget(id);
    }
  }

  /**
   * Corrects the count of unclean ends once the database can be reached. The claim of the next
   * owner may have counted one for each running conversation, but this server lives, so no
   * conversation has ended it.
   */
  async #takeBackEnds(sandboxIds: readonly string[]): Promise<void> {
    const { store } = this.#deps.after;
    for (let attempt = 0; attempt < maxCountAttempts; attempt++) {
      await sleep(countAfterMs, undefined, { ref: false });
      try {
        return await store.nodes?.takeBackEnds(sandboxIds);
      } catch (error) {
        this.#warn(error);
      }
    }
  }

  #warn(error: unknown): void {
    this.#deps.after.logger.warn({ reason: errorText(error) }, "a part of a release failed or took too long");
  }
}

function pause(): Promise<void> {
  return sleep(partMs, undefined, { ref: false });
}
