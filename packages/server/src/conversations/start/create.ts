import { posix } from "node:path";
import { checkAnalyzer } from "@sandpiper/agent/risk/choose-analyzer";
import { mergeSkills } from "@sandpiper/agent/skills/skill";
import { checkTools } from "@sandpiper/agent/tools/choose";
import { PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { PluginSpec, StartConversationRequest } from "@sandpiper/wire";
import { newId } from "@sandpiper/wire";
import type { Callbacks } from "../../callbacks/api.ts";
import type { AgentDocument } from "../../store/conversation-parts.ts";
import type { ConversationConfig, ConversationRow } from "../../store/conversation-store.ts";
import { emptyConfig } from "../../store/empty-config.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets, Settings } from "../../users/api.ts";
import { checkClientSize } from "../agent/client-size.ts";
import { type OutputMasksDeps, userMask } from "../agent/output-masks.ts";
import { describeSecrets, resolveSecrets } from "../agent/secret-sources.ts";
import type { SendOptions } from "../api.ts";
import { ignoreDelivered } from "../commands/pending.ts";
import { makeTitle, parseContent } from "../log/messages.ts";
import { type PluginParts, type PluginTarget, withPlugins } from "../project/plugin-parts.ts";
import { appendParameters } from "../project/plugins.ts";
import { createWorktree, removeWorktree } from "../project/worktree.ts";
import { findParent, parseOrCreateId, requireStartSandbox } from "./checks.ts";
import { parseClientSkills, resolveAgent } from "./client-agent.ts";

export interface CreateDeps {
  store: Store;
  settings: Settings;
  secrets: Secrets;
  mask: OutputMasksDeps["mask"];
  callbacks: Callbacks;
  sandboxes: Pick<Sandboxes, "get" | "refreshSecretAccess" | "running">;
  outbound: Pick<Outbound, "fetch">;
  publicUrl: () => string;
  fetchPlugins(place: PluginTarget, plugins: readonly PluginSpec[]): Promise<PluginParts>;
  send(id: string, content: ReturnType<typeof parseContent>, options: SendOptions): Promise<void>;
  /** Sends the pending messages of a conversation. */
  deliver(id: string): Promise<void>;
}

/** The existing sandbox in which a conversation is created. */
export interface SandboxTarget {
  userId: string;
  sandboxId: string;
}

/**
 * Creates a conversation in an existing sandbox from a full agent, agent settings or an agent
 * profile (agent-server.md section 3). A taken id of the same sandbox returns that conversation
 * unchanged, with `created` false. Only plugins and a worktree wait for the sandbox. Throws
 * InvalidParameter, ProfileNotFound, ConversationExists, SandboxNotFound, and what `fetchPlugins`
 * and `createWorktree` throw.
 */
export async function createConversation(
  deps: CreateDeps,
  target: SandboxTarget,
  request: StartConversationRequest,
): Promise<{ row: ConversationRow; created: boolean }> {
  const { store, secrets, callbacks, sandboxes } = deps;
  const { userId, sandboxId } = target;
  const id = parseOrCreateId(request.conversation_id, "conversation_id");
  const existing = store.conversations.get(id);
  if (existing?.userId === userId && existing.sandboxId === sandboxId) {
    // The first attempt may have stored the message without sending it.
    await deps.deliver(id);
    return { row: store.conversations.get(id) ?? existing, created: false };
  }
  if (existing) throw new PlatformError("ConversationIdTaken", { id });
  requireStartSandbox(sandboxes, userId, sandboxId);

  const { parent_conversation_id: parentText } = request;
  const parent = parentText ? findParent(store, userId, parentText) : undefined;
  if (parentText && parent?.sandboxId !== sandboxId)
    throw new PlatformError("ParentNotInSandbox", { id: parentText });
  const { agent, condenser, launched } = resolveAgent(deps.settings, userId, request);
  const clientTools = request.client_tools ?? [];
  const keptTools = checkTools(agent, clientTools);
  const plugins = request.plugins ?? [];
  const first = request.initial_message ? parseContent(request.initial_message.content) : undefined;
  const content = first && appendParameters(first, plugins);
  if (request.security_analyzer) checkAnalyzer(request.security_analyzer);
  const sources = { ...agent?.agent_context?.secrets, ...request.secrets };
  const values = await resolveSecrets(deps, { userId, sandboxId }, sources);
  const suffixes = [
    agent?.agent_context?.system_message_suffix,
    request.agent_launch_additions?.system_message_suffix_append,
  ];

  const config: ConversationConfig = {
    ...emptyConfig(posix.resolve("/", request.workspace.working_dir)),
    ...launched,
    ...(agent && { ownAgent: true, llmModel: agent.llm.model }),
    tags: request.tags ?? {},
    systemMessageSuffix: suffixes.filter(Boolean).join("\n\n") || launched?.systemMessageSuffix || null,
    maxIterations: request.max_iterations ?? 500,
    stuckDetection: request.stuck_detection ?? true,
    confirmationPolicy: request.confirmation_policy ?? { kind: "NeverConfirm" },
    securityAnalyzer: request.security_analyzer ?? null,
    ...(request.autotitle === false && { autotitle: false }),
    ...(request.title_llm_profile && { titleLlmProfile: request.title_llm_profile }),
  };
  const document: AgentDocument = {
    ...(agent && { agent }),
    ...(condenser && { condenser }),
    ...(clientTools.length > 0 && { clientTools }),
    ...(keptTools && { keptTools }),
    ...(request.hook_config && { hookConfig: request.hook_config }),
  };
  checkClientSize(document);
  if (Object.keys(document).length > 0) config.ownAgent = true;
  const title =
    (request.autotitle !== false && content && makeTitle(content, userMask(deps, userId))) || null;
  // Stored with the conversation, so that the next process sends it after a crash.
  const message = content && { id: newId(), content };
  // Plugins and worktree come before anything is stored, so that their errors leave nothing behind.
  const fetched = await deps.fetchPlugins({ userId, sandboxId, workingDir: config.workingDir }, plugins);
  const parts = { ...fetched, skills: mergeSkills(parseClientSkills(agent), fetched.skills) };
  const context = withPlugins({ skills: [], notes: [] }, parts);
  if (request.worktree)
    Object.assign(config, await createWorktree(sandboxes, { id, sandboxId }, config.workingDir));

  const row = {
    ...{ id, userId, sandboxId, config, title, parentId: parent?.id ?? null, createdAt: Date.now() },
    ...((context.skills.length > 0 || context.plugins) && { context: { document: context, activated: [] } }),
    ...(message && { message }),
  };
  // Secrets are stored first; after a crash the next process removes those without a conversation.
  try {
    const owner = { userId, conversationId: id, sandboxId };
    if (Object.keys(values).length > 0)
      await secrets.putConversation(owner, values, describeSecrets(deps, sources));
    await Promise.all([
      callbacks.register(userId, id, []),
      store.conversations.create(row, config.ownAgent ? document : undefined),
    ]);
  } catch (error) {
    await dropSecrets(deps, id);
    await removeWorktree(deps, target, config.worktree);
    throw error;
  }
  if (Object.keys(values).length > 0) sandboxes.refreshSecretAccess(sandboxId);
  if (message) {
    const sender = request.initial_message?.sender ?? undefined;
    await deps.send(id, message.content, { run: true, sender, delivers: message.id }).catch(ignoreDelivered);
  }
  return { row: store.conversations.get(id)!, created: true };
}

/** Removes the secrets of a conversation that could not be stored. Never rejects. */
export async function dropSecrets(
  { store, secrets }: Pick<CreateDeps, "store" | "secrets">,
  id: string,
): Promise<void> {
  if (!store.conversations.get(id)) await secrets.removeConversation(id).catch(() => {});
}
