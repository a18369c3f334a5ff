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
  globalSkills?: ((userId: string) => Promise<readonly Skill[]>) | undefined;
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
    const { model } = await this.#deps.agents.model(row);
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
    const { model } = await this.#deps.agents.model(row);
    return this.skills(
      row,
      await loadSkills(sandbox, { workingDir: row.config.workingDir, model, frontMatter: this.#frontMatter }),
    );
  }

  /** The enabled skills of a conversation, `live` ones first. */
  async skills(
    row: Pick<ConversationRow, "id" | "userId" | "config">,
    live: readonly Skill[] = [],
  ): Promise<Skill[]> {
    const { settings, globalSkills } = this.#deps;
    const [context, preferences, global = []] = await Promise.all([
      this.contexts.get(row.id),
      settings.agent(row.userId),
      globalSkills?.(row.userId),
    ]);
    const all = mergeSkills(live, context.skills, global);
    const { onlySkills } = row.config;
    const allowed = onlySkills ? all.filter(({ name }) => onlySkills.includes(name)) : all;
    return enabledSkills(allowed, [...preferences.disabledSkills, ...(row.config.disabledSkills ?? [])]);
  }

  async usesMemory(row: Pick<ConversationRow, "id" | "userId" | "config">): Promise<boolean> {
    const own = (await this.#deps.agents.clientAgent(row))?.agent;
    if (own) return (own.agent_context as { load_memory?: unknown } | null | undefined)?.load_memory === true;
    return (await this.#deps.settings.agent(row.userId)).loadMemory;
  }

  /** Loads the memory for the next prompt; it is empty after an error or an aborted signal. */
  async loadMemory(
    row: ConversationRow,
    sandbox: () => Promise<CommandRunner>,
    signal: AbortSignal,
  ): Promise<void> {
    if (!(await this.usesMemory(row))) return;
    const memory = abortable(sandbox(), signal).then((files) =>
      loadMemory(files, row.config.workingDir, signal),
    );
    this.#memories.set(row.id, await memory.catch(() => ({ notes: [] })));
  }

  /** The project's rules for the files that an action touched, except the known ones. */
  async rulesFor(row: KnownRow, action: Action, activeNames: ReadonlySet<string>): Promise<TextContent[]> {
    const { workingDir } = row.config;
    if (touchedPaths(action, workingDir).length === 0) return [];
    const skills = (await this.skills(row)).filter(({ paths }) => paths);
    return this.#maskContent(row, rulesFor(action, { skills, workingDir, known: activeNames }));
  }

  /** The first event of a conversation. */
  async systemPrompt(row: ConversationRow, tools: readonly Tool[]): Promise<NewEvent> {
    const { sandboxFacts, agents, masks } = this.#deps;
    const {
      workingDir,
      systemMessageSuffix: suffix,
      selectedRepository,
      selectedBranch,
      agentType,
    } = row.config;
    const loaded = this.#memories.get(row.id);
    this.#memories.delete(row.id);
    const memory = loaded ?? ((await this.usesMemory(row)) ? { notes: [] } : undefined);
    const [sandbox, skills, { notes }, own, secrets, mask] = await Promise.all([
      sandboxFacts.describe(row),
      this.skills(row),
      this.contexts.get(row.id),
      agents.clientAgent(row),
      sandboxFacts.secrets(row),
      masks.forConversation(row),
    ]);
    return systemPromptEvent(tools, {
      workingDir,
      sandbox,
      memory: memory && memoryBlock(memory, workingDir),
      suffix,
      now: Date.now(),
      skills,
      notes,
      repository: selectedRepository === null ? null : { name: selectedRepository, branch: selectedBranch },
      planPath: agentType === "plan" ? getPlanPath(row.config) : undefined,
      prompt: own?.agent?.system_prompt ?? undefined,
      secrets,
      hide: (text) => mask.text(text),
    });
  }

  /** The new skills for a user message, and the suffix that is added to each message. */
  async activate(row: KnownRow, content: readonly Content[]): Promise<Activation> {
    const { names, content: skills } = await this.#matchSkills(row, content);
    const own = (await this.#deps.agents.clientAgent(row))?.agent;
    const suffix = own
      ? own.agent_context?.user_message_suffix
      : (await this.#deps.settings.agent(row.userId)).userMessageSuffix;
    return {
      names,
      content: await this.#maskContent(row, suffix?.trim() ? [...skills, textContent(suffix)] : skills),
    };
  }

  async #maskContent(row: KnownRow, content: readonly TextContent[]): Promise<TextContent[]> {
    if (content.length === 0) return [];
    const mask = await this.#deps.masks.forConversation(row);
    return content.map((part) => ({ ...part, text: mask.text(part.text) }));
  }

  async #matchSkills(row: KnownRow, content: readonly Content[]): Promise<Activation> {
    const [all, activated, context] = await Promise.all([
      this.skills(row),
      this.activatedSkills(row.id),
      this.contexts.get(row.id),
    ]);
    const known = new Set(activated);
    const skills = all.filter(({ triggers }) => triggers.length > 0);
    const matched =
      skills.length === 0 ? { names: [], content: [] } : activateSkills(skills, contentText(content), known);
    const lateNames = new Set(context.late);
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
  async servers(
    row: Pick<ConversationRow, "id" | "userId" | "config">,
    invoked: Iterable<string>,
  ): Promise<FoundServers> {
    const [{ mcpServers = {}, folded }, all] = await Promise.all([
      this.contexts.get(row.id),
      this.skills(row),
    ]);
    const skills = all.filter((skill) => skill.mcpServers);
    if (skills.length === 0) return { servers: mcpServers, inside: new Set(Object.keys(mcpServers)) };
    const activated = await this.activatedSkills(row.id);
    const active = new Set([...activated, ...(folded?.invokedSkills ?? []), ...invoked]);
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
    if (names.length === 0) return;
    await this.#deps.store.contexts.activate(id, (before) => [...new Set([...before, ...names])]);
  }

  /** Names of the skills that messages have activated. */
  async activatedSkills(id: string): Promise<string[]> {
    return (await this.#deps.store.contexts.get(id))?.activated ?? [];
  }
}
