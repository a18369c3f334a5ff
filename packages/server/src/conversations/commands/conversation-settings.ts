import { checkAnalyzer } from "@sandpiper/agent/risk/choose-analyzer";
import { PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type {
  ConfirmationPolicy,
  GivenLlm,
  PatchConversationRequest,
  PluginSpec,
  SecretSource,
  SecurityAnalyzer,
} from "@sandpiper/wire";
import type { Callbacks } from "../../callbacks/api.ts";
import type { ConversationConfig, ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets, Settings } from "../../users/api.ts";
import { requireLocal } from "../access.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import { checkClientSize } from "../agent/client-size.ts";
import { unmask } from "../agent/mask-secrets.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import { describeSecrets, resolveSecrets } from "../agent/secret-sources.ts";
import type { Hub } from "../log/hub.ts";
import { fetchPlugins, type PluginParts, type PluginTarget } from "../project/plugin-parts.ts";
import type { Runner } from "../run/runner.ts";

export interface ConversationSettingsDeps {
  store: Pick<Store, "conversations" | "agents" | "events">;
  callbacks: Pick<Callbacks, "changed">;
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
 * What clients of the agent server change of a conversation that is there (agent-server.md section 3). A run that goes on sees it with its next step.
 * All of them throw ConversationNotFound for one that was deleted meanwhile, and ConversationExternal.
 */
export class ConversationSettings {
  readonly #deps: ConversationSettingsDeps;
  /** Changes that read before they write, of one conversation one after the other. */
  readonly #changes = new KeyedMutex();
  readonly #closing = new AbortController();

  constructor(deps: ConversationSettingsDeps) {
    this.#deps = deps;
  }

  /** Title and tags; tags replace all that were there. */
  async describe(row: ConversationRow, { title, tags }: PatchConversationRequest): Promise<void> {
    await this.#deps.store.conversations.update(row.id, {
      ...(title && { title }),
      ...(tags && { config: { tags } }),
    });
    this.#deps.callbacks.changed(row.id);
    if (tags) this.#tell(row.id, "tags", tags);
    else if (title) this.#deps.runner.announcements.announceTitle(row.id);
  }

  /** When the agent has to ask before it acts. */
  async setPolicy(row: ConversationRow, policy: ConfirmationPolicy): Promise<void> {
    await this.#configure(row, { confirmationPolicy: policy }, "confirmation_policy", policy);
  }

  /** What judges the risk of actions; null: nothing does. Throws InvalidParameter for one that this server does not have. */
  async setAnalyzer(row: ConversationRow, analyzer: SecurityAnalyzer | null): Promise<void> {
    if (analyzer) checkAnalyzer(analyzer);
    await this.#configure(row, { securityAnalyzer: analyzer }, "security_analyzer", analyzer);
  }

  /** Adds secrets, over those of the same names. Throws what `resolveSecrets` throws, and TooManySecrets. */
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
      // Those of a conversation that is gone would stay in its sandbox.
      await secrets.dropConversation(conversationId);
      throw gone();
    }
    // A run that has told its end, and a shell that is asked for its state, count as work for a moment.
    await runner.requireAtRest(conversationId).catch(() => {});
    // A shell that does not answer keeps the variables that it has.
    await runner.renewShell(conversationId).catch(() => {});
    sandboxes.refreshSecretAccess(sandboxId);
    runner.announcements.announce(conversationId);
  }

  /** Lets the next model call use an LLM profile of the user. Throws ProfileNotFound. */
  async switchProfile({ id, userId }: ConversationRow, profile: string): Promise<void> {
    const { settings, store, runner } = this.#deps;
    if (!settings.profileModel(userId, profile)?.model)
      throw new PlatformError("ProfileNotFound", `The settings have no LLM profile ${profile}.`);
    await store.conversations.update(id, { config: { llmProfile: profile } });
    runner.announcements.announce(id);
  }

  /**
   * Lets the next model call go to this model. A masked key means the one that the conversation's model of the same address has. Throws InvalidParameter for a
   * description that is too long.
   */
  async switchLlm(row: ConversationRow, given: GivenLlm): Promise<void> {
    requireLocal(row);
    const { store, agents } = this.#deps;
    const { id } = row;
    await this.#changes.run(id, async () => {
      const now = store.conversations.get(id) ?? row;
      const own = agents.clientAgent(now);
      const llm = restoreSecrets(given, own?.llm ?? own?.agent?.llm);
      const document = { ...own, llm };
      checkClientSize(document);
      await store.agents.put(id, document);
      const llmRevision = (now.config.llmRevision ?? 0) + 1;
      await store.conversations.update(id, {
        config: { ownAgent: true, llmModel: llm.model, llmProfile: null, llmRevision },
      });
    });
    const changed = store.conversations.get(id);
    if (changed) this.#tell(id, "agent", agents.present(changed, { skills: false }));
  }

  /** Fetches a plugin into the sandbox; the agent has its skills from the next message on. Throws what `fetchPlugins` throws. */
  async loadPlugin(row: ConversationRow, plugin: PluginSpec): Promise<void> {
    requireLocal(row);
    const { store, knowledge, runner } = this.#deps;
    const { id, userId, sandboxId, config } = row;
    await this.#changes.run(id, async () => {
      const parts = await this.fetchPlugins({ userId, sandboxId, workingDir: config.workingDir }, [plugin]);
      try {
        await knowledge.addPlugins(id, parts, { late: store.events.lastSeq(id) > 0 });
      } catch (error) {
        throw store.conversations.get(id) ? error : gone();
      }
    });
    runner.announcements.announce(id);
  }

  /** As the function of this name, until this process is about to end. */
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
    this.#tell(row.id, key, value);
  }

  /** Followers get the changed field, and the whole state. */
  #tell(id: string, key: string, value: unknown): void {
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

/** Of a conversation that was deleted under a change. */
function gone(): PlatformError {
  return new PlatformError("ConversationNotFound", "Conversation not found");
}

const awsSecrets = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"] as const;

/**
 * A model as a client gives it back after it has read it: with the key and the headers that it could not read. Another address, or another provider,
 * gets none of them.
 */
function restoreSecrets(given: GivenLlm, before: GivenLlm | undefined): GivenLlm {
  const provider = ({ model }: GivenLlm) => model.split("/").slice(0, -1).join("/");
  const sameAddress = (before?.base_url ?? null) === (given.base_url ?? null);
  const source = before && sameAddress && provider(before) === provider(given) ? before : undefined;
  const { api_key: key, extra_headers: headers } = given;
  const isMasked = (text: string) => text !== "" && unmask(text) === undefined;
  const opened = Object.entries(headers ?? {}).flatMap(([name, value]): [string, string][] => {
    if (!isMasked(value)) return [[name, value]];
    const known = source?.extra_headers ?? {};
    return Object.hasOwn(known, name) ? [[name, known[name]!]] : [];
  });
  return {
    ...given,
    ...(key && isMasked(key) && { api_key: source?.api_key ?? null }),
    ...Object.fromEntries(
      awsSecrets.flatMap((name) => (isMasked(given[name] ?? "") ? [[name, source?.[name] ?? null]] : [])),
    ),
    ...(headers && { extra_headers: Object.fromEntries(opened) }),
  };
}
