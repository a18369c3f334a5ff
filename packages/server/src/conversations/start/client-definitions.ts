import type { AgentDefinition } from "@sandpiper/agent/skills/agent-definitions";
import { PlatformError } from "@sandpiper/core/errors";
import type { GivenAgentDefinition } from "@sandpiper/wire";

const modes = ["always_confirm", "never_confirm", "confirm_risky"] as const;

/**
 * The sub-agents that a client defines, the last one of each name (agent-server-1.58.md, openapi
 * AgentDefinition). Throws InvalidParameter for an unknown `permission_mode`.
 */
export function parseDefinitions(
  given: readonly GivenAgentDefinition[] | null | undefined,
): AgentDefinition[] {
  const found = new Map<string, AgentDefinition>();
  for (const one of given ?? []) found.set(one.name, parseDefinition(one));
  return [...found.values()];
}

function parseDefinition(given: GivenAgentDefinition): AgentDefinition {
  const { name, description, model, tools, skills, permission_mode: mode } = given;
  const permissionMode = modes.find((one) => one === mode);
  if (mode && !permissionMode)
    throw new PlatformError("PermissionModeUnknown", { name, mode, modes: modes.join(", ") });
  return {
    name,
    description: description ?? "",
    systemPrompt: given.system_prompt || description || "",
    ...(tools && tools.length > 0 && { tools }),
    ...(skills && skills.length > 0 && { skills }),
    ...(model && model !== "inherit" && { model }),
    ...(permissionMode && { permissionMode }),
    ...(given.max_iteration_per_run && { maxIterations: given.max_iteration_per_run }),
    ...(given.max_budget_per_run && { maxBudget: given.max_budget_per_run }),
    ...(given.mcp_config && { mcpServers: given.mcp_config }),
    ...(given.condenser && { condenser: given.condenser }),
    ...(given.hooks && { hooks: given.hooks }),
  };
}
