import type { GivenAgentSettings } from "@sandpiper/wire";

/**
 * What of agent settings is a part of an agent. Clients read a conversation's agent as an agent (remote-clients.md section 2), and a condenser of the
 * settings, which has no kind, is none to them: they would refuse the whole conversation.
 */
export function agentParts(settings: GivenAgentSettings): Omit<GivenAgentSettings, "agent_kind" | "llm"> {
  const {
    agent_kind: _kind,
    llm: _llm,
    schema_version: _version,
    agent: _name,
    verification: _verification,
    enable_sub_agents: _subAgents,
    enable_switch_llm_tool: _switching,
    condenser,
    ...parts
  } = settings as GivenAgentSettings & Record<string, unknown>;
  return { ...parts, ...(condenser?.kind && { condenser }) };
}
