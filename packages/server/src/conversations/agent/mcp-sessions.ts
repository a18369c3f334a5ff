import { sessionOpener } from "@sandpiper/agent/mcp/open-session";
import { PolicedOutbounds } from "@sandpiper/agent/mcp/policed-outbound";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Secrets } from "../../users/api.ts";

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

export interface McpSessionsDeps {
  sandboxes: Pick<Sandboxes, "get" | "getSpec">;
  secrets: Pick<Secrets, "forSandbox">;
  outbound: Pick<Outbound, "fetch">;
  /** The running, prepared sandbox of a conversation. */
  sandbox(row: Row): Promise<Sandbox>;
  /** Receives the secrets of configurations. */
  registerSecret?: ((value: string, userId: string) => void) | undefined;
}

/** Opens sessions with the MCP servers of conversations. */
export class McpSessions {
  readonly #deps: McpSessionsDeps;
  readonly #policed = new PolicedOutbounds();

  constructor(deps: McpSessionsDeps) {
    this.#deps = deps;
  }

  opener(row: Row): ReturnType<typeof sessionOpener> {
    const { outbound, secrets, sandboxes, sandbox, registerSecret } = this.#deps;
    const { userId, sandboxId } = row;
    return sessionOpener({
      outbound,
      policed: this.#policed,
      sandbox: () => sandbox(row),
      workingDir: row.config.workingDir,
      secrets: () => secrets.forSandbox(userId, sandboxId),
      policy: async () => {
        const record = await sandboxes.get(userId, sandboxId);
        return record ? sandboxes.getSpec(record).network : { mode: "none", allow: [], credentials: [] };
      },
      trace: row.config.trace,
      onSecret: (value) => registerSecret?.(value, userId),
    });
  }

  close(): Promise<void> {
    return this.#policed.close();
  }
}
