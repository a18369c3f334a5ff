import { checkAnalyzer } from "@sandpiper/agent/risk/choose-analyzer";
import { PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type {
  AppConversationUpdateRequest,
  ConfirmationPolicy,
  GivenLlm,
  PatchConversationRequest,
  PluginSpec,
  ProviderType,
  SecretSource,
  SecurityAnalyzer,
} from "@sandpiper/wire";
import type { Callbacks } from "../../callbacks/api.ts";
import type {
  ConversationChange,
  ConversationConfig,
  ConversationRow,
} from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets, Settings } from "../../users/api.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import { checkClientSize } from "../agent/client-size.ts";
import { unmask } from "../agent/mask-secrets.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import { describeSecrets, resolveSecrets } from "../agent/secret-sources.ts";
import type { Hub } from "../log/hub.ts";
import { requireLocal } from "../lookup.ts";
import { fetchPlugins, type PluginParts, type PluginTarget } from "../project/plugin-parts.ts";
import { checkBranch, checkRepositoryName } from "../project/repository.ts";
import type { Runner } from "../run/runner.ts";

export interface ConversationUpdaterDeps {
  store: Pick<Store, "conversations" | "agents" | "events">;
  callbacks: Pick<Callbacks, "notifyChange">;
  settings: Settings;
  sandboxes: Sandboxes;
  secrets: Secrets;
  outbound: Pick<Outbound, "fetch">;
  publicUrl: () => string;
  agents: AgentConfigResolver;
  knowledge: Pick<ProjectKnowledge, "addPlugins">;
  hub: Pick<Hub, "publishEvent">;
  runner: Pick<Runner, "announcements" | "requireAtRest" | "renewShell">;
}

/**
 * Changes that clients of the agent server make to an existing conversation (agent-server.md
 * section 3). A run in progress uses them from its next step. Every method throws
 * ConversationNotFound when the conversation was deleted in the meantime, and ConversationExternal.
 */
export class ConversationUpdater {
  readonly #deps: ConversationUpdaterDeps;
  /** Serialises read-modify-write changes of a conversation. */
  readonly #changes = new KeyedMutex();
  readonly #closing = new AbortController();

  constructor(deps: ConversationUpdaterDeps) {
    this.#deps = deps;
  }

  /** Changes title and tags; `tags` replaces all earlier tags. */
  async describe(row: ConversationRow, { title, tags }: PatchConversationRequest): Promise<void> {
    await this.#deps.store.conversations.update(row.id, {
      ...(title && { title }),
      ...(tags && { config: { tags } }),
    });
    this.#deps.callbacks.notifyChange(row.id);
    if (tags) this.#publish(row.id, "tags", tags);
    else if (title) this.#deps.runner.announcements.announceTitle(row.id);
  }

  async setPolicy(row: ConversationRow, policy: ConfirmationPolicy): Promise<void> {
    await this.#configure(row, { confirmationPolicy: policy }, "confirmation_policy", policy);
  }

  /** Sets the risk analyzer; null for none. Throws InvalidParameter when it is unknown. */
  async setAnalyzer(row: ConversationRow, analyzer: SecurityAnalyzer | null): Promise<void> {
    if (analyzer) checkAnalyzer(analyzer);
    await this.#configure(row, { securityAnalyzer: analyzer }, "security_analyzer", analyzer);
  }

  /** Adds or replaces secrets. Throws what `resolveSecrets` throws, and TooManySecrets. */
  async addSecrets(row: ConversationRow, sources: Readonly<Record<string, SecretSource>>): Promise<void> {
    requireLocal(row);
    const { userId, sandboxId, id: conversationId } = row;
    const values = await resolveSecrets(this.#deps, row, sources);
    const { runner, sandboxes, secrets, store } = this.#deps;
    if (Object.keys(values).length > 0) {
      const owner = { userId, conversationId, sandboxId };
      await secrets.putConversation(owner, values, describeSecrets(this.#deps, sources));
    }
    if (!store.conversations.get(conversationId)) {
      // The secrets of a deleted conversation would stay in its sandbox.
      await secrets.removeConversation(conversationId);
      throw new PlatformError("ConversationUnknown");
    }
    // A run that has just ended still counts as work for a moment.
    await runner.requireAtRest(conversationId).catch(() => {});
    // A shell that does not answer keeps its variables.
    await runner.renewShell(conversationId).catch(() => {});
    sandboxes.refreshSecretAccess(sandboxId);
    runner.announcements.announce(conversationId);
  }

  /** Makes the next model call use an LLM profile of the user. Throws ProfileNotFound. */
  async switchProfile({ id, userId }: ConversationRow, profile: string): Promise<void> {
    const { settings, store, runner } = this.#deps;
    if (!settings.profileModel(userId, profile)?.model)
      throw new PlatformError("LlmProfileUnknown", { name: profile });
    await store.conversations.update(id, { config: { llmProfile: profile } });
    runner.announcements.announce(id);
  }

  /**
   * Makes the next model call use this model. Masked secrets mean those of the conversation's
   * current model at the same address. Throws InvalidParameter when the description is too long.
   */
  async switchLlm(row: ConversationRow, description: GivenLlm): Promise<void> {
    requireLocal(row);
    const { store, agents } = this.#deps;
    const { id } = row;
    await this.#changes.run(id, async () => {
      const now = store.conversations.get(id) ?? row;
      const own = agents.clientAgent(now);
      const llm = restoreSecrets(description, own?.llm ?? own?.agent?.llm);
      const document = { ...own, llm };
      checkClientSize(document);
      await store.agents.put(id, document);
      const llmRevision = (now.config.llmRevision ?? 0) + 1;
      await store.conversations.update(id, {
        config: { ownAgent: true, llmModel: llm.model, llmProfile: null, llmRevision },
      });
    });
    const changed = store.conversations.get(id);
    if (changed) this.#publish(id, "agent", agents.present(changed, { skills: false }));
  }

  /** Fetches a plugin, which applies from the next message. Throws what `fetchPlugins` throws. */
  async loadPlugin(row: ConversationRow, plugin: PluginSpec): Promise<void> {
    requireLocal(row);
    const { store, knowledge, runner } = this.#deps;
    const { id, userId, sandboxId, config } = row;
    await this.#changes.run(id, async () => {
      const parts = await this.fetchPlugins({ userId, sandboxId, workingDir: config.workingDir }, [plugin]);
      try {
        await knowledge.addPlugins(id, parts, { late: store.events.lastSeq(id) > 0 });
      } catch (error) {
        throw store.conversations.get(id) ? error : new PlatformError("ConversationUnknown");
      }
    });
    runner.announcements.announce(id);
  }

  /** Calls `fetchPlugins` with a signal that is aborted at shutdown. */
  fetchPlugins(place: PluginTarget, plugins: readonly PluginSpec[]): Promise<PluginParts> {
    return fetchPlugins(this.#deps, place, plugins, this.#closing.signal);
  }

  close(): void {
    this.#closing.abort(new Error("The server is ending."));
  }

  async #configure(
    row: ConversationRow,
    config: Partial<ConversationConfig>,
    key: string,
    value: unknown,
  ): Promise<void> {
    requireLocal(row);
    await this.#deps.store.conversations.update(row.id, { config });
    this.#publish(row.id, key, value);
  }

  /** Sends the changed field, then the whole state, to followers. */
  #publish(id: string, key: string, value: unknown): void {
    const { hub, runner } = this.#deps;
    hub.publishEvent(id, {
      kind: "ConversationStateUpdateEvent",
      source: "environment",
      key,
      value: value ?? undefined,
    });
    runner.announcements.announce(id);
  }
}

const keyFields = ["api_key", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"] as const;

/**
 * Replaces the masked secrets of a model description by those of the model before, if both have the
 * same address and provider; otherwise removes them.
 */
function restoreSecrets(llm: GivenLlm, before: GivenLlm | undefined): GivenLlm {
  const provider = ({ model }: GivenLlm) => model.split("/").slice(0, -1).join("/");
  const sameAddress = (before?.base_url ?? null) === (llm.base_url ?? null);
  const source = before && sameAddress && provider(before) === provider(llm) ? before : undefined;
  const isMasked = (text: string) => text !== "" && unmask(text) === undefined;
  const restored: GivenLlm = { ...llm };
  for (const name of keyFields) if (isMasked(llm[name] ?? "")) restored[name] = source?.[name] ?? null;
  if (!llm.extra_headers) return restored;
  const previous = new Map(Object.entries(source?.extra_headers ?? {}));
  const headers = Object.entries(llm.extra_headers).flatMap(([name, value]): [string, string][] => {
    const header = isMasked(value) ? previous.get(name) : value;
    return header === undefined ? [] : [[name, header]];
  });
  return { ...restored, extra_headers: Object.fromEntries(headers) };
}

/**
 * Converts a patch request into the change of the record: absent keys stay, null clears, and
 * clearing the repository clears branch and provider (app-server.md section 2.6). Throws
 * InvalidParameter.
 */
export function parseConversationUpdate(
  row: Pick<ConversationRow, "config">,
  change: AppConversationUpdateRequest,
): ConversationChange {
  const { title, selected_repository: repository, selected_branch: branch, git_provider: provider } = change;
  if (repository === null && (branch || provider)) throw new PlatformError("BranchWithoutRepository");
  const config: ConversationChange["config"] = {};
  if (change.public !== undefined) config.public = change.public;
  if (provider !== undefined) config.gitProvider = provider;
  if (typeof repository === "string") {
    const { gitProvider = row.config.gitProvider } = config;
    checkRepositoryName(repository, gitProvider as ProviderType | null);
    config.selectedRepository = repository;
  }
  if (branch !== undefined) config.selectedBranch = branch ? checkBranch(branch) : null;
  if (repository === null)
    Object.assign(config, { selectedRepository: null, selectedBranch: null, gitProvider: null });
  return { ...(title !== undefined && { title }), config };
}
