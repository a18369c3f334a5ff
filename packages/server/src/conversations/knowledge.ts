import type { Content, NewEvent } from "@sandpiper/wire";
import { contentText, textContent } from "@sandpiper/wire";
import { planPathOf } from "../agent/planning.ts";
import { systemPromptEvent } from "../agent/prompt.ts";
import { loadSkills } from "../agent/skills/load.ts";
import { skillBlocks } from "../agent/skills/prompt-text.ts";
import { enabledSkills, mergeSkills, type Skill } from "../agent/skills/skill.ts";
import { type Activation, activateSkills } from "../agent/skills/triggers.ts";
import type { Tool } from "../agent/tool.ts";
import type { Files } from "../sandboxes/files.ts";
import type { ConversationRow } from "../store/conversation-store.ts";
import type { Store } from "../store/store.ts";
import type { Secrets, Settings } from "../users/api.ts";
import type { Agents } from "./agents.ts";
import { pluginServers } from "./plugin-servers.ts";

/** What a conversation knows of its project: gathered at its start and kept beside it, so that a restart knows the same. */
interface KnownContext {
  skills: Skill[];
  /** What the start has to tell the agent, such as a setup script that failed. */
  notes: string[];
  /** MCP servers of its plugins, as their files name them. */
  mcpServers?: Record<string, unknown>;
  /** Names of skills that came after the prompt: the next message tells the agent of them. */
  late?: string[];
}

export interface KnowledgeDependencies {
  store: Pick<Store, "contexts">;
  settings: Settings;
  agents: Pick<Agents, "own" | "model">;
  secrets?: Pick<Secrets, "forSandbox"> | undefined;
  /** Skills that this server gives to every conversation of a user. */
  globalSkills?: ((userId: string) => readonly Skill[]) | undefined;
}

/** Skills and notes of conversations: into the prompt, and with the messages that name them. */
export class Knowledge {
  readonly #deps: KnowledgeDependencies;

  constructor(deps: KnowledgeDependencies) {
    this.#deps = deps;
  }

  /** Loads the skills of a conversation's sandbox and keeps them. Throws what `exec` throws. */
  async gather(row: ConversationRow, sandbox: Files, plugins: readonly string[], notes: string[]): Promise<void> {
    const { store, agents } = this.#deps;
    const { model } = agents.model(row);
    const skills = await loadSkills(sandbox, { workingDir: row.config.workingDir, model, plugins });
    const mcpServers = await pluginServers(sandbox, plugins);
    const hasServers = Object.keys(mcpServers).length > 0;
    if (skills.length + notes.length === 0 && !hasServers) return;
    const context: KnownContext = { skills, notes, ...(hasServers && { mcpServers }) };
    await store.contexts.put(row.id, context);
  }

  /** Adds skills to those of a conversation, in the place of others of the same names. `late` says that its prompt is written already. */
  async add(id: string, skills: readonly Skill[], { late }: { late: boolean }): Promise<void> {
    const before = this.#context(id);
    const names = late ? skills.map(({ name }) => name) : [];
    const context = { ...before, skills: mergeSkills(skills, before.skills), late: [...(before.late ?? []), ...names] };
    await this.#deps.store.contexts.put(id, context);
  }

  /** The skills that lie in a conversation's sandbox now, and those that it knows besides. Throws what `exec` throws. */
  async current(row: ConversationRow, sandbox: Files): Promise<Skill[]> {
    const { model } = this.#deps.agents.model(row);
    return this.skills(row, await loadSkills(sandbox, { workingDir: row.config.workingDir, model }));
  }

  /** The skills of a conversation, `live` ones first, without those that the user has switched off. */
  skills(row: Pick<ConversationRow, "id" | "userId" | "config">, live: readonly Skill[] = []): Skill[] {
    const { settings, globalSkills } = this.#deps;
    const all = mergeSkills(live, this.#context(row.id).skills, globalSkills?.(row.userId) ?? []);
    return enabledSkills(all, [...settings.agent(row.userId).disabledSkills, ...(row.config.disabledSkills ?? [])]);
  }

  /** The first event of a conversation. */
  systemPrompt(row: ConversationRow, tools: readonly Tool[]): NewEvent {
    const { workingDir, systemMessageSuffix: suffix, selectedRepository, selectedBranch, agentType } = row.config;
    return systemPromptEvent(tools, {
      workingDir,
      suffix,
      now: Date.now(),
      skills: this.skills(row),
      notes: this.#context(row.id).notes,
      repository: selectedRepository === null ? null : { name: selectedRepository, branch: selectedBranch },
      planPath: agentType === "plan" ? planPathOf(row.config) : undefined,
      prompt: this.#deps.agents.own(row)?.agent?.system_prompt ?? undefined,
      secrets: this.#deps.secrets?.forSandbox(row.userId, row.sandboxId),
    });
  }

  /** The skills that a user message brings along, none that the conversation has already. */
  activate(row: Pick<ConversationRow, "id" | "userId" | "config">, content: readonly Content[]): Activation {
    const all = this.skills(row);
    const known = new Set(this.activated(row.id));
    const skills = all.filter(({ triggers }) => triggers.length > 0);
    const found = skills.length === 0 ? { names: [], content: [] } : activateSkills(skills, contentText(content), known);
    const lateNames = new Set(this.#context(row.id).late);
    const late = all.filter(({ name, triggers }) => triggers.length === 0 && lateNames.has(name) && !known.has(name));
    if (late.length === 0) return found;
    return {
      names: [...late.map(({ name }) => name), ...found.names],
      content: [textContent(skillBlocks(late).join("\n\n")), ...found.content],
    };
  }

  /** The MCP servers of a conversation's plugins, unchecked. */
  pluginServers(id: string): Readonly<Record<string, unknown>> {
    return this.#context(id).mcpServers ?? {};
  }

  /** Remembers what a message that is in the log has brought along. */
  async remember(id: string, { names }: Activation): Promise<void> {
    if (names.length > 0) await this.#deps.store.contexts.activate(id, [...new Set([...this.activated(id), ...names])]);
  }

  /** Names of the skills that messages brought along so far. */
  activated(id: string): string[] {
    return this.#deps.store.contexts.get(id)?.activated ?? [];
  }

  #context(id: string): KnownContext {
    return (this.#deps.store.contexts.get(id)?.document as KnownContext | undefined) ?? { skills: [], notes: [] };
  }
}
