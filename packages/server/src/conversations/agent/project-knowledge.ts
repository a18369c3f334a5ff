import { loadHooks } from "@sandpiper/agent/hooks/load";
import { getPlanPath } from "@sandpiper/agent/prompt/planning";
import { systemPromptEvent } from "@sandpiper/agent/prompt/prompt";
import { loadAgentDefinitions } from "@sandpiper/agent/skills/agent-definitions";
import { FrontMatterCache } from "@sandpiper/agent/skills/front-matter";
import { loadProject, loadSkills } from "@sandpiper/agent/skills/load";
import { loadMemory, type Memory, memoryBlock } from "@sandpiper/agent/skills/memory";
import { rulesFor, touchedPaths } from "@sandpiper/agent/skills/path-rules";
import { skillBlocks } from "@sandpiper/agent/skills/prompt-text";
import { enabledSkills, mergeSkills, type Skill } from "@sandpiper/agent/skills/skill";
import { type Activation, activateSkills } from "@sandpiper/agent/skills/triggers";
import type { Tool } from "@sandpiper/agent/tools/tool";
import { abortable } from "@sandpiper/core/abortable";
import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import type { Action, Content, NewEvent, TextContent } from "@sandpiper/wire";
import { contentText, textContent } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Settings } from "../../users/api.ts";
import type { UsedParts } from "../project/behaviours.ts";
import { type PluginParts, withPlugins } from "../project/plugin-parts.ts";
import { loadPluginServers } from "../project/plugin-servers.ts";
import { ProjectContexts } from "../project/project-context.ts";
import type { AgentConfigResolver } from "./agent-config.ts";
import type { OutputMasks } from "./output-masks.ts";
import type { SandboxFacts } from "./sandbox-facts.ts";

export interface ProjectKnowledgeDeps {
  store: Pick<Store, "contexts">;
  settings: Settings;
  agents: Pick<AgentConfigResolver, "clientAgent" | "model">;
  /** Masks secrets in texts of the project. */
  masks: Pick<OutputMasks, "forConversation">;
  sandboxFacts: SandboxFacts;
  /** Skills that this server gives to every conversation of a user. */
  globalSkills?: ((userId: string) => readonly Skill[]) | undefined;
}

export interface CollectOptions {
  plugins: readonly string[];
  notes: string[];
  late: boolean;
  onRead(used: UsedParts): Promise<void>;
}

type KnownRow = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

/** MCP servers that a conversation found. */
export interface FoundServers {
  servers: Readonly<Record<string, unknown>>;
  /** Names of those from its sandbox; the others come from the user or the operator. */
  inside: ReadonlySet<string>;
}

/** Maximum notes about invalid sub-agent definitions. */
const maxProblems = 10;

/** Adds skills, notes and memory to prompts, and skills to the messages that name them. */
export class ProjectKnowledge {
  readonly contexts: ProjectContexts;
  readonly #deps: ProjectKnowledgeDeps;
  readonly #frontMatter = new FrontMatterCache();
  /** Loaded memories for prompts that are about to be written. */
  readonly #memories = new Map<string, Memory>();

  constructor(deps: ProjectKnowledgeDeps) {
    this.#deps = deps;
    this.contexts = new ProjectContexts(deps.store.contexts);
  }

  /**
   * Loads and stores the project context; `late`: after the prompt. `onRead` gets what is about to
   * be used. Throws what `exec` and `onRead` throw.
   */
  async collect(row: ConversationRow, sandbox: CommandRunner, options: CollectOptions): Promise<void> {
    const { plugins, notes, late, onRead } = options;
    const { workingDir } = row.config;
    const { model } = this.#deps.agents.model(row);
    const warnings: string[] = [];
    const warn = (text: string) => void (warnings.length < maxProblems && warnings.push(text));
    const [project, mcpServers, hooks, agents] = await Promise.all([
      loadProject(sandbox, { workingDir, model, plugins, frontMatter: this.#frontMatter }),
      loadPluginServers(sandbox, plugins, warn),
      loadHooks(sandbox, { workingDir, plugins }),
      loadAgentDefinitions(sandbox, { workingDir, plugins, report: warn }).catch(() => []),
    ]);
    await onRead({ skills: project.skills, servers: mcpServers, hooks: hooks.config });
    const problems = [...project.problems, ...hooks.problems, ...warnings];
    const names = late
      ? project.skills.filter(({ type }) => type !== "knowledge").map(({ name }) => name)
      : [];
    await this.contexts.change(row.id, (before) => ({
      ...before,
      skills: mergeSkills(project.skills, before.skills),
      notes,
      hooks: hooks.config,
      agents: agents.map(({ name, description }) => ({ name, description })),
      ...(plugins.length > 0 && { plugins: [...plugins] }),
      ...(Object.keys(mcpServers).length > 0 && { mcpServers }),
      ...(problems.length > 0 && { problems }),
      ...(names.length > 0 && { late: [...new Set([...(before.late ?? []), ...names])] }),
    }));
  }

  /** Adds plugins, whose skills replace those of the same names; `late`: after the prompt. */
  async addPlugins(id: string, parts: PluginParts, { late }: { late: boolean }): Promise<void> {
    const names = late ? parts.skills.map(({ name }) => name) : [];
    await this.contexts.change(id, (before) => {
      const after = withPlugins(before, parts);
      return names.length > 0 ? { ...after, late: [...(before.late ?? []), ...names] } : after;
    });
  }

  /** The skills that are in the sandbox now and those of the context. Throws what `exec` throws. */
  async listSkills(row: ConversationRow, sandbox: CommandRunner): Promise<Skill[]> {
    const { model } = this.#deps.agents.model(row);
    return this.skills(
      row,
      await loadSkills(sandbox, { workingDir: row.config.workingDir, model, frontMatter: this.#frontMatter }),
    );
  }

  /** The enabled skills of a conversation, `live` ones first. */
  skills(row: Pick<ConversationRow, "id" | "userId" | "config">, live: readonly Skill[] = []): Skill[] {
    const { settings, globalSkills } = this.#deps;
    const all = mergeSkills(live, this.contexts.get(row.id).skills, globalSkills?.(row.userId) ?? []);
    const { onlySkills } = row.config;
    const allowed = onlySkills ? all.filter(({ name }) => onlySkills.includes(name)) : all;
    return enabledSkills(allowed, [
      ...settings.agent(row.userId).disabledSkills,
      ...(row.config.disabledSkills ?? []),
    ]);
  }

  usesMemory(row: Pick<ConversationRow, "id" | "userId" | "config">): boolean {
    const own = this.#deps.agents.clientAgent(row)?.agent;
    if (own) return (own.agent_context as { load_memory?: unknown } | null | undefined)?.load_memory === true;
    return this.#deps.settings.agent(row.userId).loadMemory;
  }

  /** Loads the memory for the next prompt; it is empty after an error or an aborted signal. */
  async loadMemory(
    row: ConversationRow,
    sandbox: () => Promise<CommandRunner>,
    signal: AbortSignal,
  ): Promise<void> {
    if (!this.usesMemory(row)) return;
    const memory = abortable(sandbox(), signal).then((files) =>
      loadMemory(files, row.config.workingDir, signal),
    );
    this.#memories.set(row.id, await memory.catch(() => ({ notes: [] })));
  }

  /** The project's rules for the files that an action touched, except the known ones. */
  rulesFor(row: KnownRow, action: Action, activeNames: ReadonlySet<string>): TextContent[] {
    const { workingDir } = row.config;
    if (touchedPaths(action, workingDir).length === 0) return [];
    const skills = this.skills(row).filter(({ paths }) => paths);
    return this.#maskContent(row, rulesFor(action, { skills, workingDir, known: activeNames }));
  }

  /** The first event of a conversation. */
  systemPrompt(row: ConversationRow, tools: readonly Tool[]): NewEvent {
    const {
      workingDir,
      systemMessageSuffix: suffix,
      selectedRepository,
      selectedBranch,
      agentType,
    } = row.config;
    const memory = this.#memories.get(row.id) ?? (this.usesMemory(row) ? { notes: [] } : undefined);
    this.#memories.delete(row.id);
    return systemPromptEvent(tools, {
      workingDir,
      sandbox: this.#deps.sandboxFacts.describe(row),
      memory: memory && memoryBlock(memory, workingDir),
      suffix,
      now: Date.now(),
      skills: this.skills(row),
      notes: this.contexts.get(row.id).notes,
      repository: selectedRepository === null ? null : { name: selectedRepository, branch: selectedBranch },
      planPath: agentType === "plan" ? getPlanPath(row.config) : undefined,
      prompt: this.#deps.agents.clientAgent(row)?.agent?.system_prompt ?? undefined,
      secrets: this.#deps.sandboxFacts.secrets(row),
      hide: (text) => this.#deps.masks.forConversation(row).text(text),
    });
  }

  /** The new skills for a user message, and the suffix that is added to each message. */
  activate(row: KnownRow, content: readonly Content[]): Activation {
    const { names, content: skills } = this.#matchSkills(row, content);
    const own = this.#deps.agents.clientAgent(row)?.agent;
    const suffix = own
      ? own.agent_context?.user_message_suffix
      : this.#deps.settings.agent(row.userId).userMessageSuffix;
    return {
      names,
      content: this.#maskContent(row, suffix?.trim() ? [...skills, textContent(suffix)] : skills),
    };
  }

  #maskContent(row: KnownRow, content: readonly TextContent[]): TextContent[] {
    const mask = this.#deps.masks.forConversation(row);
    return content.map((part) => ({ ...part, text: mask.text(part.text) }));
  }

  #matchSkills(row: KnownRow, content: readonly Content[]): Activation {
    const all = this.skills(row);
    const known = new Set(this.activatedSkills(row.id));
    const skills = all.filter(({ triggers }) => triggers.length > 0);
    const matched =
      skills.length === 0 ? { names: [], content: [] } : activateSkills(skills, contentText(content), known);
    const lateNames = new Set(this.contexts.get(row.id).late);
    const late = all.filter(
      ({ name, triggers, paths }) =>
        triggers.length === 0 && !paths && lateNames.has(name) && !known.has(name),
    );
    if (late.length === 0) return matched;
    return {
      names: [...late.map(({ name }) => name), ...matched.names],
      content: [textContent(skillBlocks(late).join("\n\n")), ...matched.content],
    };
  }

  /**
   * The unchecked MCP servers of a conversation's plugins, and under unused names those of its
   * active skills: in the prompt, activated by a message, or read by the agent (`invoked`: not yet
   * in the log). Those from its sandbox are named in `inside`.
   */
  servers(row: Pick<ConversationRow, "id" | "userId" | "config">, invoked: Iterable<string>): FoundServers {
    const { mcpServers = {}, folded } = this.contexts.get(row.id);
    const skills = this.skills(row).filter((skill) => skill.mcpServers);
    if (skills.length === 0) return { servers: mcpServers, inside: new Set(Object.keys(mcpServers)) };
    const active = new Set([...this.activatedSkills(row.id), ...(folded?.invokedSkills ?? []), ...invoked]);
    const activeSkills = skills.filter(({ name, type }) => type === "repo" || active.has(name));
    const found = new Map<string, { server: unknown; isInside: boolean }>();
    const add = (servers: Readonly<Record<string, unknown>>, isInside: boolean) => {
      for (const [name, server] of Object.entries(servers))
        if (!found.has(name)) found.set(name, { server, isInside });
    };
    add(mcpServers, true);
    for (const { mcpServers: own = {}, source } of activeSkills) add(own, source !== "global");
    const entries = [...found];
    return {
      servers: Object.fromEntries(entries.map(([name, { server }]) => [name, server])),
      inside: new Set(entries.flatMap(([name, { isInside }]) => (isInside ? [name] : []))),
    };
  }

  /** Stores the skills that a logged message activated. */
  async recordActivation(id: string, { names }: Activation): Promise<void> {
    if (names.length > 0)
      await this.#deps.store.contexts.activate(id, [...new Set([...this.activatedSkills(id), ...names])]);
  }

  /** Names of the skills that messages have activated. */
  activatedSkills(id: string): string[] {
    return this.#deps.store.contexts.get(id)?.activated ?? [];
  }
}
