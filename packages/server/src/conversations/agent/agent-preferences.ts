import type { ConversationRow } from "../../store/conversation-store.ts";
import type { AgentPreferences, Settings } from "../../users/api.ts";

/** The settings of a conversation's agent: those of its agent profile replace the user's. */
export async function agentPreferences(
  settings: Pick<Settings, "agent">,
  { userId, config }: Pick<ConversationRow, "userId" | "config">,
): Promise<
  Pick<AgentPreferences, "tools" | "enableSubAgents" | "enableSwitchLlmTool" | "toolConcurrencyLimit">
> {
  const own = await settings.agent(userId);
  const { tools, enableSubAgents, enableSwitchLlmTool, toolConcurrencyLimit } = config.launchedProfile ?? {};
  return {
    tools: tools === undefined ? own.tools : tools,
    enableSubAgents: enableSubAgents ?? own.enableSubAgents,
    enableSwitchLlmTool: enableSwitchLlmTool ?? own.enableSwitchLlmTool,
    toolConcurrencyLimit: toolConcurrencyLimit ?? own.toolConcurrencyLimit,
  };
}
