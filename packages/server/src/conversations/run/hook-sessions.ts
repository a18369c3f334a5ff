import { type HookConfig, mergeHookConfigs, toHookConfig } from "@sandpiper/agent/hooks/config";
import { type Hooks, type HookVerdict, noHooks } from "@sandpiper/agent/hooks/hooks";
import { loadHooks } from "@sandpiper/agent/hooks/load";
import { ProjectHooks, type RunHooksDeps } from "@sandpiper/agent/hooks/project-hooks";
import { nudge } from "@sandpiper/agent/loop/records";
import { toolRegistry } from "@sandpiper/agent/tools/registry";
import type { Model, ModelResponse } from "@sandpiper/models/model";
import type { ActionEvent, MessageEvent, Observation } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import type { ProjectContexts } from "../project/project-context.ts";
import type { Restrictions } from "./restrictions.ts";

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

export interface HookSessionsDeps {
  contexts: ProjectContexts;
  agents: Pick<AgentConfigResolver, "clientAgent">;
  addUsage(id: string, usageId: string, model: string, response: ModelResponse): Promise<void>;
  restrictions: Pick<Restrictions, "find" | "isRestricted">;
}

/**
 * The hooks of conversations: the client's, else the project's, plus those that the client gave a
 * sub-agent, plus those of plugins. Project
 * hooks are read once, at the latest by the first tool call; later changes by the agent affect
 * later conversations. For a sandbox that gets no secrets, the server asks no model.
 */
export class HookSessions {
  readonly #deps: HookSessionsDeps;
  /** Conversations with hooks whose session has begun, with their sandboxes. */
  readonly #sessions = new Map<string, string>();

  constructor(deps: HookSessionsDeps) {
    this.#deps = deps;
  }

  forRun(row: Row, run: RunHooksDeps): Hooks {
    return new LazyHooks({
      getCached: () => this.#getConfig(row),
      find: () => this.#loadConfig(row, run),
      open: (config) => this.#open(row, config, run),
      beginsSession: () => this.#begin(row),
    });
  }

  /** Begins the session of a conversation. Returns false when the session has begun already. */
  #begin({ id, sandboxId }: Row): boolean {
    if (this.#sessions.has(id)) return false;
    this.#sessions.set(id, sandboxId);
    return true;
  }

  /** Runs the SessionEnd hooks of a session that has begun. Throws the signal's reason. */
  async endSession(row: Row, run: RunHooksDeps): Promise<void> {
    const config = this.#sessions.delete(row.id) ? await this.#getConfig(row) : undefined;
    if (config?.session_end) await this.#open(row, config, run).sessionEnd();
  }

  /** Whether `endSession` has hooks to run. */
  async hasSessionEnd(row: Row): Promise<boolean> {
    return this.#sessions.has(row.id) && (await this.#getConfig(row))?.session_end !== undefined;
  }

  /** Conversations whose session has begun; default: in all sandboxes. */
  listSessions(sandboxIds?: ReadonlySet<string>): string[] {
    return [...this.#sessions].flatMap(([id, sandboxId]) =>
      !sandboxIds || sandboxIds.has(sandboxId) ? [id] : [],
    );
  }

  drop(conversationId: string): void {
    this.#sessions.delete(conversationId);
  }

  #open({ id, config: { workingDir } }: Row, config: HookConfig, run: RunHooksDeps): ProjectHooks {
    const addUsage = (usageId: string, model: Model, response: ModelResponse) =>
      this.#deps.addUsage(id, usageId, model.name, response);
    return new ProjectHooks(config, { ...run, conversationId: id, workingDir, addUsage });
  }

  /** Undefined when the project's hooks were not read yet. */
  async #getConfig(row: Row): Promise<HookConfig | undefined> {
    const [context, agent, isRestricted] = await Promise.all([
      this.#deps.contexts.get(row.id),
      this.#deps.agents.clientAgent(row),
      this.#deps.restrictions.isRestricted(row),
    ]);
    const { hooks, pluginHooks = {} } = context;
    const { hookConfig: client, ownHooks } = agent ?? {};
    const admit = (config: HookConfig) => (isRestricted ? commandHooks(config) : config);
    // Released clients send the project's hooks as their own.
    const own = client ? (toHookConfig(client) ?? {}) : hooks;
    return own && admit(mergeHookConfigs([own, toHookConfig(ownHooks) ?? {}, pluginHooks]));
  }

  async #loadConfig(row: Row, { sandbox, append }: RunHooksDeps): Promise<HookConfig> {
    const cached = await this.#getConfig(row);
    if (cached) return cached;
    const place = await sandbox();
    const { config, problems } = await loadHooks(place, { workingDir: row.config.workingDir });
    const { restrictions } = this.#deps;
    const notices =
      Object.keys(config).length > 0 ? await restrictions.find(row, place, { hooks: config }) : [];
    await this.#deps.contexts.change(row.id, (before) => ({ ...before, hooks: before.hooks ?? config }));
    const records = [...problems.map(nudge), ...notices];
    if (records.length > 0) await append(records);
    return (await this.#getConfig(row)) ?? config;
  }
}

/** The hooks that run in the sandbox: others ask the user's model. */
function commandHooks(config: HookConfig): HookConfig {
  const events = Object.entries(config).map(([event, matchers]) => {
    const kept = matchers.map(({ matcher, hooks }) => ({
      matcher,
      hooks: hooks.filter(({ type }) => type === "command"),
    }));
    return [event, kept.filter(({ hooks }) => hooks.length > 0)] as const;
  });
  return Object.fromEntries(events.filter(([, matchers]) => matchers.length > 0));
}

interface LazyHooksDeps {
  getCached(): Promise<HookConfig | undefined>;
  find(): Promise<HookConfig>;
  open(config: HookConfig): ProjectHooks;
  /** True once, when the conversation's session begins. */
  beginsSession(): boolean;
}

/**
 * Uses known hooks from the session's start on, and loads others when they are first needed. When
 * the load fails, the session has no hooks.
 */
class LazyHooks implements Hooks {
  readonly #deps: LazyHooksDeps;
  #hooks: Hooks | undefined;
  #loading: Promise<Hooks> | undefined;

  constructor(parts: LazyHooksDeps) {
    this.#deps = parts;
  }

  get holdsEnd(): boolean {
    return this.#hooks?.holdsEnd ?? false;
  }

  async sessionStart(): Promise<void> {
    const known = await this.#deps.getCached();
    if (known) this.#hooks ??= this.#makeHooks(known);
    if (this.#hooks && this.#hooks !== noHooks && this.#deps.beginsSession())
      await this.#hooks.sessionStart();
  }

  async userPrompt(message: MessageEvent): Promise<HookVerdict> {
    return this.#hooks?.userPrompt(message) ?? {};
  }

  async beforeTool(event: ActionEvent): Promise<HookVerdict> {
    if (!this.#hooks && !toolRegistry.roleOf(event.tool_name)) {
      this.#loading ??= this.#load();
      this.#hooks = await this.#loading;
    }
    return this.#hooks?.beforeTool(event) ?? {};
  }

  async afterTool(event: ActionEvent, observation: Observation): Promise<HookVerdict> {
    return this.#hooks?.afterTool(event, observation) ?? {};
  }

  async beforeStop(): Promise<HookVerdict> {
    return this.#hooks?.beforeStop() ?? {};
  }

  async #load(): Promise<Hooks> {
    let hooks: Hooks;
    try {
      hooks = this.#makeHooks(await this.#deps.find());
    } catch {
      // The tool call itself reports what is wrong with the sandbox. The next run tries again.
      return noHooks;
    }
    if (hooks !== noHooks && this.#deps.beginsSession()) await hooks.sessionStart();
    return hooks;
  }

  #makeHooks(config: HookConfig): Hooks {
    return Object.keys(config).length > 0 ? this.#deps.open(config) : noHooks;
  }
}
