import { isInvocable } from "@sandpiper/agent/skills/prompt-text";
import { invokeSkillTool } from "@sandpiper/agent/tools/invoke-skill";
import type { Tool } from "@sandpiper/agent/tools/tool";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { ProjectKnowledge } from "./project-knowledge.ts";
import type { ToolSource } from "./toolset.ts";

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

export interface SkillToolsDeps {
  store: { conversations: Pick<Store["conversations"], "get"> };
  knowledge: Pick<ProjectKnowledge, "skills" | "contexts">;
  /** Connects the MCP servers of a skill, in a bounded time; gives sentences about what went wrong. */
  joinServers(row: Row, skill: string, signal: AbortSignal): Promise<readonly string[]>;
}

/** The tool that reads skills, where there are some to read (agent-behaviour.md section 8); and what could not be read of a project is told at the next run. */
export class SkillTools implements ToolSource {
  readonly #deps: SkillToolsDeps;
  readonly #tools: readonly Tool[];

  constructor(deps: SkillToolsDeps) {
    this.#deps = deps;
    const { store, knowledge, joinServers } = deps;
    const tool = invokeSkillTool({
      skills(id) {
        const row = store.conversations.get(id);
        return row ? knowledge.skills(row).filter(isInvocable) : [];
      },
      async joinServers(id, skill, signal) {
        const row = store.conversations.get(id);
        return row ? joinServers(row, skill, signal) : [];
      },
    });
    this.#tools = [tool as unknown as Tool];
  }

  tools(row: Row): readonly Tool[] {
    return this.#deps.knowledge.skills(row).some(isInvocable) ? this.#tools : [];
  }

  async prepare({ id }: Row): Promise<readonly string[]> {
    const { contexts } = this.#deps.knowledge;
    const { problems = [] } = contexts.get(id);
    if (problems.length > 0) await contexts.change(id, ({ problems: _told, ...rest }) => rest);
    return problems;
  }
}
