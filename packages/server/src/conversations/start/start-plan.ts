import { posix } from "node:path";
import { browserPrograms } from "@sandpiper/agent/browser/launch";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { hasAnyFile } from "@sandpiper/sandbox/specs/programs";
import type { AppConversationStartRequest, Content, GroupingStrategy } from "@sandpiper/wire";
import { hexId, textContent } from "@sandpiper/wire";
import type { ConversationConfig, NewConversation } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets, Settings } from "../../users/api.ts";
import { type OutputMasksDeps, userMask } from "../agent/output-masks.ts";
import { makeTitle, parseContent } from "../log/messages.ts";
import { appendParameters } from "../project/plugins.ts";
import { checkBranch } from "../project/repository.ts";
import { findParent, parseOrCreateId, requireAgentProfile, requireStartSandbox } from "./checks.ts";
import { launchProfile, profileSuffix } from "./launched-profile.ts";
import { findRepository, resolveSources, type StartSources } from "./start-sources.ts";
import { suggestedTaskPrompt } from "./suggested-task.ts";

export interface PlanDeps {
  store: Pick<Store, "conversations">;
  sandboxes: Pick<Sandboxes, "get" | "getSpec" | "resolveSpec">;
  settings: Settings;
  secrets: Pick<Secrets, "providers" | "forSandbox">;
  mask: OutputMasksDeps["mask"];
}

/** A validated request: the conversation without its sandbox, which may be a new one. */
export interface Plan {
  conversation: Omit<NewConversation, "sandboxId">;
  /** The sandbox of the request or of the parent conversation. */
  sandboxId: string | undefined;
  strategy: GroupingStrategy;
  work: StartWork;
}

/** The work of a start besides creating the conversation; derived from the request. */
export interface StartWork extends StartSources {
  message: Content[] | undefined;
  /**
   * The project is prepared, and its skills are read for the prompt, before the first message.
   * Unnecessary in a new sandbox without repository and plugins: the first model call does not wait
   * for it.
   */
  preparesFirst: boolean;
}

/**
 * Validates a start request. Throws InvalidParameter, ConversationExists, SandboxNotFound,
 * SandboxSpecNotFound, ProfileNotFound and ConversationNotFound (the parent).
 */
export async function planStart(
  deps: PlanDeps,
  userId: string,
  request: AppConversationStartRequest,
): Promise<Plan> {
  const { store, sandboxes, settings } = deps;
  const id = parseOrCreateId(request.conversation_id, "conversation_id");
  if (await store.conversations.get(id)) throw new PlatformError("ConversationIdTaken", { id: hexId(id) });
  const profile = request.agent_profile_id
    ? await requireAgentProfile(settings, userId, request.agent_profile_id)
    : await settings.agentProfiles.active(userId);
  const preferences = await settings.agent(userId);

  const { parent_conversation_id: parentText } = request;
  const parent = parentText ? await findParent(store, userId, parentText) : undefined;
  if (parentText && !parent) throw new PlatformError("ParentUnknown");
  const sandboxId = request.sandbox_id || parent?.sandboxId;
  const sandbox = sandboxId ? await requireStartSandbox(sandboxes, userId, sandboxId) : undefined;
  if (sandbox && request.network) throw new PlatformError("NetworkOfExistingSandbox");
  const spec = sandbox
    ? sandboxes.getSpec(sandbox)
    : await sandboxes.resolveSpec(userId, request.sandbox_spec_id ?? undefined);
  const strategy = (await settings.view(userId)).sandbox_grouping_strategy ?? "NO_GROUPING";

  const task = request.suggested_task ?? undefined;
  if (task && request.initial_message) throw new PlatformError("TaskAndMessage");
  const own = findRepository(request);
  const inherited =
    parent !== undefined && request.sandbox_id !== parent.sandboxId && request.sandbox_id
      ? undefined
      : parent;
  // The default profile does not change the model of a sub-conversation.
  const launched = profile && (await launchProfile(settings, userId, profile));
  const llmProfile = parent && !request.agent_profile_id ? parent.config.llmProfile : launched?.llmProfile;
  const config: ConversationConfig = {
    llmModel: request.llm_model || parent?.config.llmModel || null,
    selectedRepository: own.repository || parent?.config.selectedRepository || null,
    selectedBranch:
      request.selected_branch || (own.repository ? null : parent?.config.selectedBranch) || null,
    gitProvider: own.provider ?? (own.repository ? null : parent?.config.gitProvider) ?? null,
    trigger: request.trigger ?? (task ? "suggested_task" : null),
    prNumber: request.pr_number ?? [],
    public: request.public ?? null,
    tags: request.tags ?? {},
    agentType: request.agent_type ?? "default",
    ...(hasAnyFile(spec, browserPrograms) && { browser: true }),
    systemMessageSuffix:
      request.system_message_suffix ?? profileSuffix(profile) ?? preferences.systemMessageSuffix,
    workingDir: "",
    maxIterations: preferences.maxIterations,
    ...(request.max_budget_per_task && { maxBudget: request.max_budget_per_task }),
    ...launched,
    llmProfile: undefined,
    ...(!request.llm_model && { llmProfile }),
  };
  const work = await planWork(deps, userId, request, config, sandboxId !== undefined);
  if (work.repository) config.gitProvider ??= work.repository.provider;
  // Conversations in a shared sandbox have their own folders.
  const base = strategy === "NO_GROUPING" ? spec.workingDir : posix.join(spec.workingDir, hexId(id));
  const sharesFolder = inherited && config.selectedRepository === inherited.config.selectedRepository;
  if (sharesFolder) config.workingDir = inherited.config.workingDir;
  else config.workingDir = work.repository ? posix.join(base, work.repository.folder) : base;

  const hide = await userMask(deps, userId);
  const title =
    request.title?.trim() ||
    (task ? makeTitle([textContent(task.title)], hide) : makeTitle(work.message ?? [], hide));
  const conversation = {
    id,
    userId,
    config,
    title: title || `Conversation ${hexId(id).slice(0, 5)}`,
    parentId: parent?.id ?? null,
    createdAt: Date.now(),
  };
  return { conversation, sandboxId, strategy, work };
}

/** The work of a start for a conversation with this configuration. Throws InvalidParameter. */
export async function planWork(
  { secrets }: Pick<PlanDeps, "secrets">,
  userId: string,
  request: AppConversationStartRequest,
  { selectedRepository, selectedBranch, gitProvider }: ConversationConfig,
  inExistingSandbox: boolean,
): Promise<StartWork> {
  const specs = request.plugins ?? [];
  const source = { repository: selectedRepository, provider: gitProvider };
  const { repository, plugins } = resolveSources(await secrets.providers(userId), source, specs);
  if (repository && selectedBranch) checkBranch(selectedBranch);
  const first = request.suggested_task
    ? [textContent(suggestedTaskPrompt(request.suggested_task))]
    : request.initial_message && parseContent(request.initial_message.content);
  const preparesFirst = repository !== undefined || plugins.length > 0 || inExistingSandbox;
  return { message: appendParameters(first ?? undefined, specs), repository, plugins, preparesFirst };
}
