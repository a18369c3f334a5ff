import type { Sandboxes } from "@sandpiper/sandbox/api";
import { describeSpec } from "@sandpiper/sandbox/specs/describe-spec";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Secrets } from "../../users/api.ts";

type Row = Pick<ConversationRow, "userId" | "sandboxId">;

export interface SandboxFactsDeps {
  sandboxes: Pick<Sandboxes, "get" | "getSpec">;
  secrets?: Pick<Secrets, "forSandbox"> | undefined;
}

/** What an agent is told about its sandbox. */
export class SandboxFacts {
  readonly #deps: SandboxFactsDeps;

  constructor(deps: SandboxFactsDeps) {
    this.#deps = deps;
  }

  /** Lines about system, packages and network; none for a sandbox that was deleted. */
  async describe({ userId, sandboxId }: Row): Promise<string[]> {
    const { sandboxes } = this.#deps;
    const sandbox = await sandboxes.get(userId, sandboxId);
    return sandbox ? describeSpec(sandboxes.getSpec(sandbox)) : [];
  }

  /** The secrets that its variables stand for; undefined when the server keeps none. */
  async secrets({ userId, sandboxId }: Row) {
    return this.#deps.secrets?.forSandbox(userId, sandboxId);
  }
}
