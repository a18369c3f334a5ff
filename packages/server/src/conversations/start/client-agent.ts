import { parseText, readList } from "@sandpiper/agent/skills/front-matter";
import { readServers } from "@sandpiper/agent/skills/parse";
import type { Skill } from "@sandpiper/agent/skills/skill";
import { defaultAgentTools, defaultTools } from "@sandpiper/agent/tools/choose";
import { PlatformError } from "@sandpiper/core/errors";
import type {
  CondenserSettings,
  GivenAgent,
  GivenAgentSettings,
  StartConversationRequest,
} from "@sandpiper/wire";
import type { ConversationConfig } from "../../store/conversation-store.ts";
import type { Settings } from "../../users/api.ts";
import { requireAgentProfile } from "./checks.ts";
import { launchProfile, profileSuffix } from "./launched-profile.ts";

export interface ResolvedAgent {
  /** Undefined when the agent of the user's settings is used, changed by `launched`. */
  agent: GivenAgent | undefined;
  /** See `AgentDocument`. */
  condenser?: Partial<CondenserSettings>;
  launched?: Partial<ConversationConfig>;
}

/**
 * Resolves the agent of a request from a full agent, agent settings or an agent profile. Throws
 * InvalidParameter and ProfileNotFound.
 */
export async function resolveAgent(
  settings: Settings,
  userId: string,
  request: StartConversationRequest,
): Promise<ResolvedAgent> {
  const { agent, agent_settings: agentSettings, agent_profile_id: profileId } = request;
  if ([agent, agentSettings, profileId].filter(Boolean).length !== 1)
    throw new PlatformError("AgentSourceAmbiguous");
  if (profileId) {
    const profile = await requireAgentProfile(settings, userId, profileId);
    return {
      agent: undefined,
      launched: {
        ...(await launchProfile(settings, userId, profile)),
        systemMessageSuffix: profileSuffix(profile),
      },
    };
  }
  // A full agent without MCP servers has none; agent settings without them inherit the user's.
  if (agent) return { agent: requireAgentKind({ ...agent, mcp_config: agent.mcp_config ?? {} }) };
  const { agent_kind: kind, llm } = agentSettings!;
  if (kind && kind !== "openhands")
    throw new PlatformError("AgentKindUnsupported", { kind, supported: "openhands" });
  const model = llm?.model || (await settings.model(userId)).model;
  if (!model) throw new PlatformError("AgentModelMissing");
  const fields = selectAgentFields(agentSettings!);
  const condenser = agentSettings!.condenser ?? {};
  return {
    agent: requireAgentKind({ ...fields, ...settingsToTools(agentSettings!), llm: { ...llm, model } }),
    ...(!condenser.kind && { condenser: condenser as Partial<CondenserSettings> }),
  };
}

/**
 * The fields of agent settings that belong to an agent (remote-clients.md section 2). Clients would
 * refuse a conversation whose agent has the condenser of the settings, which has no kind.
 */
function selectAgentFields(settings: GivenAgentSettings): Omit<GivenAgentSettings, "agent_kind" | "llm"> {
  const {
    agent_kind: _kind,
    llm: _llm,
    schema_version: _version,
    agent: _name,
    verification: _verification,
    enable_sub_agents: _subAgents,
    enable_switch_llm_tool: _switching,
    condenser,
    ...fields
  } = settings as GivenAgentSettings & Record<string, unknown>;
  return { ...fields, ...(condenser?.kind && { condenser }) };
}

/** Converts switches to tool names. Defaults: no sub-agents, switchable models. */
function settingsToTools(settings: GivenAgentSettings): Pick<GivenAgent, "tools" | "include_default_tools"> {
  const { include_default_tools: builtIn, enable_sub_agents: subAgents } = settings;
  const tools = [...(settings.tools ?? defaultAgentTools ?? [])];
  if (subAgents && !tools.some(({ name }) => name === "task_tool_set"))
    tools.push({ name: "task_tool_set", params: {} });
  const switchTool = settings.enable_switch_llm_tool === false ? [] : ["SwitchLLMTool"];
  if (!builtIn && switchTool.length === 0) return { tools };
  return { tools, include_default_tools: [...new Set([...(builtIn ?? defaultTools), ...switchTool])] };
}

function requireAgentKind(agent: GivenAgent): GivenAgent {
  if (agent.kind && agent.kind !== "Agent")
    throw new PlatformError("AgentKindUnsupported", { kind: agent.kind, supported: "Agent" });
  return { ...agent, kind: "Agent" };
}

const bounds = { maxItems: 100, maxLength: 256 };

/** Converts the skills of a client's agent (agent-server.md section 3.1, agent_context.skills). */
export function parseClientSkills(agent: GivenAgent | undefined): Skill[] {
  return (agent?.agent_context?.skills ?? []).flatMap((skill): Skill[] => {
    if (!skill.content && !skill.description) return [];
    // A trigger has keywords, the words of a task, or the paths of a rule.
    const { keywords, triggers: words, paths } = (skill.trigger ?? {}) as Record<string, unknown>;
    const globs = readList(Array.isArray(paths) ? paths : [], { ...bounds, maxLength: 1_000 });
    const triggers = readList([keywords, words].find(Array.isArray) ?? [], bounds);
    const listed = skill.is_agentskills_format === true;
    const {
      inputs: rawInputs,
      disable_model_invocation: hidden,
      mcp_tools,
    } = skill as Record<string, unknown>;
    const mcpServers = readServers(mcp_tools);
    const inputs = parseInputs(rawInputs);
    return [
      {
        name: skill.name,
        type: triggers.length > 0 || globs.length > 0 ? "knowledge" : listed ? "agentskills" : "repo",
        content: skill.content ?? "",
        triggers: globs.length > 0 ? [] : triggers,
        source: "project",
        description: skill.description ?? null,
        location: listed && skill.source?.startsWith("/") ? skill.source : null,
        ...(globs.length > 0 && { paths: { globs } }),
        ...(inputs.length > 0 && { inputs }),
        ...(hidden === true && { hidden: true }),
        ...(mcpServers && { mcpServers }),
      },
    ];
  });
}

function parseInputs(value: unknown): NonNullable<Skill["inputs"]> {
  return (Array.isArray(value) ? value.slice(0, bounds.maxItems) : []).flatMap((item: unknown) => {
    const { name, description } = (item ?? {}) as Record<string, unknown>;
    const cleanName = parseText(name, bounds.maxLength);
    return cleanName ? [{ name: cleanName, description: parseText(description, 1_024) ?? "" }] : [];
  });
}
