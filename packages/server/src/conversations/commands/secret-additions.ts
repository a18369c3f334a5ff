import { PlatformError } from "@sandpiper/core/errors";
import type { SecretSource } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { ClientSecrets } from "../agent/client-secrets.ts";
import { requireLocal } from "../lookup.ts";
import type { Announcements } from "../run/announcements.ts";
import type { Runner } from "../run/runner.ts";
import type { Workspaces } from "../run/workspaces.ts";

export interface SecretAdditionsDeps {
  secrets: ClientSecrets;
  runner: Pick<Runner, "requireAtRest">;
  workspaces: Pick<Workspaces, "getOrCreate">;
  announcements: Pick<Announcements, "announceCurrent">;
}

/** Adds secrets to existing conversations; a run in progress has them from its next shell. */
export class SecretAdditions {
  readonly #deps: SecretAdditionsDeps;

  constructor(deps: SecretAdditionsDeps) {
    this.#deps = deps;
  }

  /**
   * Adds or replaces secrets. Throws what `ClientSecrets.resolve` throws, TooManySecrets,
   * ConversationNotFound when the conversation was deleted in the meantime, and
   * ConversationExternal.
   */
  async add(row: ConversationRow, sources: Readonly<Record<string, SecretSource>>): Promise<void> {
    requireLocal(row);
    const { secrets, runner, workspaces, announcements } = this.#deps;
    const { userId, sandboxId, id: conversationId } = row;
    const values = await secrets.resolve(row, sources);
    await secrets.put({ userId, conversationId, sandboxId }, values, sources);
    // The secrets of a deleted conversation would stay in its sandbox.
    if (await secrets.dropUnowned(conversationId)) throw new PlatformError("ConversationUnknown");
    // A run that has just ended still counts as work for a moment.
    await runner.requireAtRest(conversationId).catch(() => {});
    // A shell that does not answer keeps its variables.
    await workspaces
      .getOrCreate(row)
      .renewShell()
      .catch(() => {});
    announcements.announceCurrent(conversationId, "secret_registry");
  }
}
