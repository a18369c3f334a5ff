import { failure } from "@sandpiper/agent/loop/status";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Store } from "../../store/store.ts";
import { removeWithSandbox } from "../commands/removal.ts";
import type { Announcements } from "../run/announcements.ts";
import type { Runner } from "../run/runner.ts";
import type { SandboxJoins } from "../sandbox-joins.ts";
import type { Start } from "./start-plans.ts";

export interface StartFailuresDeps {
  store: Pick<Store, "conversations" | "events">;
  sandboxes: Pick<Sandboxes, "get" | "remove">;
  joins: Pick<SandboxJoins, "remove">;
  runner: Pick<Runner, "abort" | "remove">;
  announcements: Pick<Announcements, "announceEnd">;
}

/** Removes conversations whose start failed, or shows them the reason. */
export class StartFailures {
  readonly #deps: StartFailuresDeps;

  constructor(deps: StartFailuresDeps) {
    this.#deps = deps;
  }

  /** Ends a stored conversation, whose log shows the reason if it has a message. */
  async end(start: Start, error: unknown): Promise<void> {
    const { store, runner } = this.#deps;
    const { id } = start.conversation;
    await runner.abort(id, "removed");
    if (!(await store.conversations.get(id))) await runner.remove(id);
    else if (start.work.preparesFirst && (await store.events.lastSeq(id)) === 0)
      await this.discard(start, error);
    else await this.#report(id, error);
  }

  /** Removes a conversation whose start failed before its first message. */
  async discard({ conversation, ownsSandbox }: Start, error: unknown): Promise<void> {
    await this.#deps.runner.remove(conversation.id);
    const how = { keepSandbox: !ownsSandbox, endsStart: toFailureReason(error) };
    await removeWithSandbox(this.#deps, conversation, how).catch(() => {});
  }

  async #report(id: string, error: unknown): Promise<void> {
    const { store, announcements } = this.#deps;
    const code =
      error instanceof PlatformError && error.code === "RepositoryFailed" ? error.code : "SandboxFailed";
    await store.events.append(id, failure(code, errorText(error)));
    announcements.announceEnd(id);
  }
}

/** The detail of a failed start task. */
export function toFailureReason(error: unknown): string {
  if (error instanceof PlatformError) return error.message;
  return "The conversation could not be started: an unexpected error, see the server's log.";
}
