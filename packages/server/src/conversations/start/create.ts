import { posix } from "node:path";
import { checkAnalyzer } from "@sandpiper/agent/risk/choose-analyzer";
import { mergeSkills } from "@sandpiper/agent/skills/skill";
import { checkTools, defaultTools, usualTools } from "@sandpiper/agent/tools/choose";
import { PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type {
  CondenserSettings,
  GivenAgent,
  GivenAgentSettings,
  PluginSpec,
  StartConversationRequest,
} from "@sandpiper/wire";
import { newId, parseId } from "@sandpiper/wire";
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
import { agentParts } from "./agent-parts.ts";
import { parseClientSkills } from "./client-skills.ts";

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
  /** Sends what waits for a conversation. */
  deliver(id: string): Promise<void>;
}

/** Where a conversation is made: in a sandbox that is there. */
export interface SandboxTarget {
  userId: string;
  sandboxId: string;
}

/**
 * Makes a conversation in a sandbox, out of a full agent, agent settings or an agent profile (agent-server.md section 3). `created` is false where the
 * id is taken by a conversation of this sandbox: that one is given, unchanged. Nothing waits for the sandbox but plugins and a worktree: the agent's tools do.
 * Throws InvalidParameter, ProfileNotFound, ConversationNotFound (the parent), ConversationExists, SandboxNotFound, and what `fetchPlugins` and
 * `makeWorktree` throw.
 */
export async function createConversation(
  deps: CreateDeps,
  place: SandboxTarget,
  request: StartConversationRequest,
): Promise<{ row: ConversationRow; created: boolean }> {
  const { store, secrets, callbacks, sandboxes } = deps;
  const { userId, sandboxId } = place;
  const id = request.conversation_id ? parseId(request.conversation_id) : newId();
  if (!id) throw invalid("conversation_id is not a UUID.");
  const known = store.conversations.get(id);
  if (known?.userId === userId && known.sandboxId === sandboxId) {
    // Of a first try that could not send it.
    await deps.deliver(id);
    return { row: store.conversations.get(id) ?? known, created: false };
  }
  if (known) throw new PlatformError("ConversationExists", `The conversation ${id} exists already.`);
  const sandbox = sandboxes.get(userId, sandboxId);
  if (!sandbox) throw new PlatformError("SandboxNotFound", "Sandbox not found");

  const parent = findParent(store, place, request.parent_conversation_id);
  const { agent, condenser, launched } = resolveAgent(deps, userId, request);
  const clientTools = request.client_tools ?? [];
  const keptTools = checkTools(agent, clientTools);
  const given = request.initial_message ? parseContent(request.initial_message.content) : undefined;
  const content = given && appendParameters(given, request.plugins ?? []);
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
  const parentId = parent?.id ?? null;
  // A crash before it is delivered leaves it to the next start of the server.
  const message = content && { id: newId(), content };
  const plugins = request.plugins ?? [];
  // Before anything is stored: who gets an error finds nothing of it.
  const fetched = await deps.fetchPlugins({ userId, sandboxId, workingDir: config.workingDir }, plugins);
  const parts = { ...fetched, skills: mergeSkills(parseClientSkills(agent), fetched.skills) };
  const context = withPlugins({ skills: [], notes: [] }, parts);
  if (request.worktree)
    Object.assign(config, await createWorktree(sandboxes, { id, sandboxId }, config.workingDir));

  const row = {
    ...{ id, userId, sandboxId, config, title, parentId, createdAt: Date.now() },
    ...((context.skills.length > 0 || context.plugins) && { context: { document: context, activated: [] } }),
    ...(message && { message }),
  };
  // What belongs to it is stored first: a crash between leaves what the next start of the server removes.
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
    await removeWorktree(deps, place, config.worktree);
    throw error;
  }
  if (Object.keys(values).length > 0) sandboxes.refreshSecretAccess(sandboxId);
  if (message) {
    const sender = request.initial_message?.sender ?? undefined;
    await deps.send(id, message.content, { run: true, sender, delivers: message.id }).catch(ignoreDelivered);
  }
  return { row: store.conversations.get(id)!, created: true };
}

/** Takes the secrets back of a conversation that could not be stored: its sandbox would have them. Never rejects; the next start removes what is left. */
export async function dropSecrets(
  { store, secrets }: Pick<CreateDeps, "store" | "secrets">,
  id: string,
): Promise<void> {
  if (!store.conversations.get(id)) await secrets.dropConversation(id).catch(() => {});
}

/** The parent has to work in the same sandbox. */
function findParent(
  { conversations }: Pick<Store, "conversations">,
  { userId, sandboxId }: SandboxTarget,
  text?: string | null,
) {
  if (!text) return undefined;
  const id = parseId(text);
  const row = id ? conversations.get(id) : undefined;
  if (row?.userId === userId && row.sandboxId === sandboxId) return row;
  throw invalid(`parent_conversation_id: there is no conversation ${text} in this sandbox.`);
}

interface Chosen {
  /** Undefined: the agent of the user's settings works, with what `launched` adds. */
  agent: GivenAgent | undefined;
  /** As in `AgentDocument`. */
  condenser?: Partial<CondenserSettings>;
  launched?: Partial<ConversationConfig>;
}

/** The agent that a request describes; exactly one way has to be chosen. */
function resolveAgent({ settings }: CreateDeps, userId: string, request: StartConversationRequest): Chosen {
  const { agent, agent_settings: given, agent_profile_id: profileId } = request;
  if ([agent, given, profileId].filter(Boolean).length !== 1)
    throw invalid("Give one of agent, agent_settings and agent_profile_id.");
  if (profileId) {
    const profile = settings.agentProfiles.byId(userId, profileId);
    if (!profile) throw new PlatformError("ProfileNotFound", "The agent profile does not exist.");
    return {
      agent: undefined,
      launched: {
        launchedProfile: { id: profile.id, revision: profile.revision },
        disabledSkills: profile.disabled_skills,
        llmProfile: profile.llm_profile_ref,
        systemMessageSuffix: profile.system_message_suffix,
      },
    };
  }
  // A whole agent has the MCP servers that it names; one of settings that name none has the user's.
  if (agent) return { agent: requireAgentKind({ ...agent, mcp_config: agent.mcp_config ?? {} }) };
  const { agent_kind: kind, llm } = given!;
  if (kind && kind !== "openhands")
    throw invalid(`Agents of kind ${kind} are not run here: agent_kind is openhands.`);
  const model = llm?.model || settings.model(userId).model;
  if (!model) throw invalid("agent_settings.llm.model is missing, and the settings name no model.");
  const parts = agentParts(given!);
  const condenser = given!.condenser ?? {};
  return {
    agent: requireAgentKind({ ...parts, ...settingsToTools(given!), llm: { ...llm, model } }),
    ...(!condenser.kind && { condenser: condenser as Partial<CondenserSettings> }),
  };
}

/** Settings say with switches what an agent says by the names of its tools. Schema defaults: no sub-agents, and models that can be switched. */
function settingsToTools(given: GivenAgentSettings): Pick<GivenAgent, "tools" | "include_default_tools"> {
  const {
    tools,
    include_default_tools: builtIn,
    enable_sub_agents: subAgents,
    enable_switch_llm_tool: switching,
  } = given;
  const usual = tools ?? usualTools ?? [];
  const named = subAgents && !usual.some(({ name }) => name === "task_tool_set");
  return {
    tools: named ? [...usual, { name: "task_tool_set", params: {} }] : usual,
    ...((builtIn || switching !== false) && {
      include_default_tools: [
        ...new Set([...(builtIn ?? defaultTools), ...(switching === false ? [] : ["SwitchLLMTool"])]),
      ],
    }),
  };
}

function requireAgentKind(agent: GivenAgent): GivenAgent {
  if (agent.kind && agent.kind !== "Agent")
    throw invalid(`Agents of kind ${agent.kind} are not run here: the kind is Agent.`);
  return { ...agent, kind: "Agent" };
}

function invalid(text: string): PlatformError {
  return new PlatformError("InvalidParameter", text);
}
