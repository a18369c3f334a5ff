import { isInvocable } from "@sandpiper/agent/skills/prompt-text";
import { namesWithoutTool, usableTools } from "@sandpiper/agent/tools/choose";
import { invokeSkillTool } from "@sandpiper/agent/tools/invoke-skill";
import { switchLlmTool } from "@sandpiper/agent/tools/switch-llm";
import type { Tool } from "@sandpiper/agent/tools/tool";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Settings } from "../../users/api.ts";
import type { ProjectContexts } from "../project/project-context.ts";
import type { AgentConfigResolver } from "./agent-config.ts";
import { agentPreferences } from "./agent-preferences.ts";
import type { ProjectKnowledge } from "./project-knowledge.ts";
import type { ToolSource } from "./toolset.ts";

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

export interface SkillToolsDeps {
  store: { conversations: Pick<Store["conversations"], "get"> };
  knowledge: Pick<ProjectKnowledge, "skills" | "contexts">;
  /** Connects the MCP servers of a skill in a bounded time; returns notes about errors. */
  joinServers(row: Row, skill: string, signal: AbortSignal): Promise<readonly string[]>;
}

/** The tool that reads skills (agent-behaviour.md section 8). Also reports project problems. */
export class SkillTools implements ToolSource {
  readonly #deps: SkillToolsDeps;

  constructor(deps: SkillToolsDeps) {
    this.#deps = deps;
  }

  async tools(row: Row): Promise<readonly Tool[]> {
    const { store, knowledge, joinServers } = this.#deps;
    const skills = (await knowledge.skills(row)).filter(isInvocable);
    if (skills.length === 0) return [];
    const tool = invokeSkillTool({
      skills: () => skills,
      async joinServers(skill, signal) {
        const now = await store.conversations.get(row.id);
        return now ? joinServers(now, skill, signal) : [];
      },
    });
    return [tool];
  }

  async prepare({ id }: Row): Promise<readonly string[]> {
    const { contexts } = this.#deps.knowledge;
    if (!(await contexts.get(id)).problems?.length) return [];
    let reported: readonly string[] = [];
    await contexts.change(id, ({ problems = [], ...rest }) => {
      reported = problems;
      return rest;
    });
    return reported;
  }
}

export interface SwitchModelToolDeps {
  settings: Pick<Settings, "agent" | "profiles">;
  agents: Pick<AgentConfigResolver, "clientAgent">;
  switchProfile(userId: string, id: string, profile: string): Promise<void>;
}

/** Names of the tool in a client's agent. */
const switchToolNames = ["SwitchLLMTool", "switch_llm"];

/** The tool that switches the model, if it is enabled and there are LLM profiles. */
export class SwitchModelTool implements ToolSource {
  readonly #deps: SwitchModelToolDeps;

  constructor(deps: SwitchModelToolDeps) {
    this.#deps = deps;
  }

  async tools(row: Row): Promise<readonly Tool[]> {
    const { settings, agents, switchProfile } = this.#deps;
    const { agent, keptTools } = (await agents.clientAgent(row)) ?? {};
    const names = [...(agent?.tools ?? []).map(({ name }) => name), ...(agent?.include_default_tools ?? [])];
    const isEnabled = agent
      ? names.some((name) => switchToolNames.includes(name)) && (keptTools?.includes("switch_llm") ?? true)
      : (await agentPreferences(settings, row)).enableSwitchLlmTool;
    if (!isEnabled) return [];
    const stored = await settings.profiles.list(row.userId);
    const profiles = stored.profiles.flatMap(({ name, model }) => (model ? [{ name, model }] : []));
    return profiles.length > 0
      ? [switchLlmTool(profiles, (id, profile) => switchProfile(row.userId, id, profile))]
      : [];
  }
}

/** Maximum names in a warning, and characters of each. */
const maxNames = 20;
const maxNameLength = 60;

/** Warns once per conversation about configured tool names that do not exist. */
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

  async tools(): Promise<[]> {
    return [];
  }

  async prepare(row: Pick<ConversationRow, "id" | "userId" | "config">): Promise<readonly string[]> {
    const { agents, contexts } = this.#deps;
    const reported = new Set((await contexts.get(row.id)).missedTools);
    const named = (await agents.toolNames(row)) ?? [];
    const missed = new Set(namesWithoutTool(named)).difference(reported);
    if (missed.size === 0) return [];
    await contexts.change(row.id, (before) => ({ ...before, missedTools: [...reported, ...missed] }));
    const names = [...missed].slice(0, maxNames).map((name) => name.slice(0, maxNameLength));
    if (missed.size > maxNames) names.push(`${missed.size - maxNames} more`);
    const who = row.config.task ? "The definition of this sub-agent names" : "The settings name";
    return [
      `${who} tools that do not exist here and are left out: ${names.join(", ")}. ` +
        `There are ${usableTools.join(", ")}; tools of MCP servers need no name.`,
    ];
  }
}
