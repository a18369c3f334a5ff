import { namesWithoutTool, usableTools } from "@sandpiper/agent/tools/choose";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { ProjectContexts } from "../project/project-context.ts";
import type { AgentConfigResolver } from "./agent-config.ts";
import type { ToolSource } from "./toolset.ts";

/** Names that one sentence tells, and characters of each. */
const maxNames = 20;
const maxName = 60;

/** Says which tools the settings, or the definition of a sub-agent, name in vain; once for each name in a conversation. */
export class UnknownToolWarnings implements ToolSource {
  readonly #deps: {
    agents: Pick<AgentConfigResolver, "toolNames">;
    contexts: Pick<ProjectContexts, "get" | "change">;
  };

  constructor(deps: {
    agents: Pick<AgentConfigResolver, "toolNames">;
    contexts: Pick<ProjectContexts, "get" | "change">;
  }) {
    this.#deps = deps;
  }

  tools(): [] {
    return [];
  }

  async prepare(row: Pick<ConversationRow, "id" | "userId" | "config">): Promise<readonly string[]> {
    const { agents, contexts } = this.#deps;
    const told = new Set(contexts.get(row.id).missedTools);
    const missed = new Set(namesWithoutTool(agents.toolNames(row) ?? [])).difference(told);
    if (missed.size === 0) return [];
    await contexts.change(row.id, (before) => ({ ...before, missedTools: [...told, ...missed] }));
    const names = [...missed].slice(0, maxNames).map((name) => name.slice(0, maxName));
    if (missed.size > maxNames) names.push(`${missed.size - maxNames} more`);
    const who = row.config.task ? "The definition of this sub-agent names" : "The settings name";
    return [
      `${who} tools that do not exist here and are left out: ${names.join(", ")}. ` +
        `There are ${usableTools.join(", ")}; tools of MCP servers need no name.`,
    ];
  }
}
