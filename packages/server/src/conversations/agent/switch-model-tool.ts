import { switchLlmTool } from "@sandpiper/agent/tools/switch-llm";
import type { Tool } from "@sandpiper/agent/tools/tool";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Settings } from "../../users/api.ts";
import type { AgentConfigResolver } from "./agent-config.ts";
import type { ToolSource } from "./toolset.ts";

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

export interface SwitchModelToolDeps {
  settings: Pick<Settings, "agent" | "profiles">;
  agents: Pick<AgentConfigResolver, "clientAgent">;
  switchProfile(userId: string, id: string, profile: string): Promise<void>;
}

/** Names by which clients ask for the tool. */
const names = ["SwitchLLMTool", "switch_llm"];

/** The tool that changes the model: for agents of settings that let them, and for those whose client names it; where there are profiles. */
export class SwitchModelTool implements ToolSource {
  readonly #deps: SwitchModelToolDeps;

  constructor(deps: SwitchModelToolDeps) {
    this.#deps = deps;
  }

  tools(row: Row): readonly Tool[] {
    const { settings, agents, switchProfile } = this.#deps;
    const own = agents.clientAgent(row);
    const isWanted = own?.agent
      ? [...(own.agent.tools ?? []).map(({ name }) => name), ...(own.agent.include_default_tools ?? [])].some(
          (name) => names.includes(name),
        ) &&
        (own.keptTools?.includes("switch_llm") ?? true)
      : settings.agent(row.userId).enableSwitchLlmTool;
    if (!isWanted) return [];
    const profiles = settings.profiles
      .list(row.userId)
      .profiles.flatMap(({ name, model }) => (model ? [{ name, model }] : []));
    return profiles.length > 0
      ? [switchLlmTool(profiles, (id, profile) => switchProfile(row.userId, id, profile))]
      : [];
  }
}
