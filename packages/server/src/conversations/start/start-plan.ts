import { posix } from "node:path";
import { browserPrograms } from "@sandpiper/agent/browser/launch";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { hasAnyFile } from "@sandpiper/sandbox/specs/programs";
import type { AppConversationStartRequest, Content, GroupingStrategy } from "@sandpiper/wire";
import { hexId, newId, parseId, textContent } from "@sandpiper/wire";
import type { ConversationConfig, ConversationRow, NewConversation } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets, Settings } from "../../users/api.ts";
import { type OutputMasksDeps, userMask } from "../agent/output-masks.ts";
import { makeTitle, parseContent } from "../log/messages.ts";
import { appendParameters, type Plugin, parsePlugin } from "../project/plugins.ts";
import { checkBranch, type Repository, resolveRepository } from "../project/repository.ts";
import { suggestedTaskPrompt } from "./suggested-task.ts";

export interface PlanDeps {
  store: Pick<Store, "conversations">;
  sandboxes: Pick<Sandboxes, "get" | "getSpec" | "resolveSpec">;
  settings: Settings;
  secrets: Pick<Secrets, "providers" | "forSandbox">;
  mask: OutputMasksDeps["mask"];
}

/** A request that was checked: everything about the conversation but its sandbox, where it gets a new one. */
export interface Plan {
  conversation: Omit<NewConversation, "sandboxId">;
  /** The sandbox that the request or its parent conversation names. */
  sandboxId: string | undefined;
  strategy: GroupingStrategy;
  work: StartWork;
}

/** What a start does beside making the conversation; read from the request again after a restart. */
export interface StartWork {
  message: Content[] | undefined;
  /** To be cloned into the working directory. */
  repository: Repository | undefined;
  plugins: Plugin[];
  /**
   * The project is made ready, and its skills are read, before the first message: they belong into the prompt. Without a repository, plugins or a
   * sandbox that was there before there is nothing to read, and the first model call does not wait for the sandbox.
   */
  preparesFirst: boolean;
}

/**
 * Checks a start request. Throws InvalidParameter, ConversationExists, SandboxNotFound, SandboxSpecNotFound, ProfileNotFound and
 * ConversationNotFound (the parent).
 */
export function planStart(
  deps: PlanDeps,
  userId: string,
  request: AppConversationStartRequest,
  isStarting: (id: string) => boolean,
): Plan {
  const { store, sandboxes, settings } = deps;
  const id = request.conversation_id ? parseId(request.conversation_id) : newId();
  if (!id) throw invalid("conversation_id is not a UUID.");
  if (isStarting(id) || store.conversations.get(id))
    throw new PlatformError("ConversationExists", `The conversation ${hexId(id)} exists already.`);
  const profile = request.agent_profile_id
    ? settings.agentProfiles.byId(userId, request.agent_profile_id)
    : settings.agentProfiles.active(userId);
  if (request.agent_profile_id && !profile)
    throw new PlatformError(
      "ProfileNotFound",
      "The agent profile does not exist: leave out agent_profile_id.",
    );
  const preferences = settings.agent(userId);

  const parent = request.parent_conversation_id
    ? findParent(deps, userId, request.parent_conversation_id)
    : undefined;
  const sandboxId = request.sandbox_id || parent?.sandboxId;
  const sandbox = sandboxId ? sandboxes.get(userId, sandboxId) : undefined;
  if (sandboxId && !sandbox)
    throw new PlatformError("SandboxNotFound", `The sandbox ${sandboxId} does not exist.`);
  if (sandbox && request.network)
    throw invalid("The network of a sandbox is set when it is made: leave out network or sandbox_id.");
  const spec = sandbox
    ? sandboxes.getSpec(sandbox)
    : sandboxes.resolveSpec(userId, request.sandbox_spec_id ?? undefined);
  const strategy = settings.view(userId).sandbox_grouping_strategy ?? "NO_GROUPING";

  const task = request.suggested_task ?? undefined;
  if (task && request.initial_message)
    throw invalid("Give either suggested_task or initial_message, not both.");
  const own = request.selected_repository || task?.repo;
  const inherited =
    parent !== undefined && request.sandbox_id !== parent.sandboxId && request.sandbox_id
      ? undefined
      : parent;
  // A profile that is only the user's default does not change the model of a sub-conversation.
  const llmProfile =
    parent && !request.agent_profile_id ? parent.config.llmProfile : profile?.llm_profile_ref;
  const config: ConversationConfig = {
    llmModel: request.llm_model || parent?.config.llmModel || null,
    selectedRepository: own || parent?.config.selectedRepository || null,
    selectedBranch: request.selected_branch || (own ? null : parent?.config.selectedBranch) || null,
    gitProvider: request.git_provider ?? (own ? task?.git_provider : parent?.config.gitProvider) ?? null,
    trigger: request.trigger ?? (task ? "suggested_task" : null),
    prNumber: request.pr_number ?? [],
    public: request.public ?? null,
    tags: request.tags ?? {},
    agentType: request.agent_type ?? "default",
    ...(hasAnyFile(spec, browserPrograms) && { browser: true }),
    systemMessageSuffix:
      request.system_message_suffix ?? profile?.system_message_suffix ?? preferences.systemMessageSuffix,
    workingDir: "",
    maxIterations: preferences.maxIterations,
    ...(profile && {
      launchedProfile: { id: profile.id, revision: profile.revision },
      disabledSkills: profile.disabled_skills,
    }),
    ...(!request.llm_model && { llmProfile }),
  };
  const work = planWork(deps, userId, request, config, sandboxId !== undefined);
  if (work.repository) config.gitProvider ??= work.repository.provider;
  // Conversations that share a sandbox do not share a folder.
  const base = strategy === "NO_GROUPING" ? spec.workingDir : posix.join(spec.workingDir, hexId(id));
  const sharesFolder = inherited && config.selectedRepository === inherited.config.selectedRepository;
  if (sharesFolder) config.workingDir = inherited.config.workingDir;
  else config.workingDir = work.repository ? posix.join(base, work.repository.folder) : base;

  const hide = userMask(deps, userId);
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

/** The work of a start whose conversation has this configuration. Throws InvalidParameter. */
export function planWork(
  { secrets }: Pick<PlanDeps, "secrets">,
  userId: string,
  request: AppConversationStartRequest,
  { selectedRepository, selectedBranch, gitProvider }: ConversationConfig,
  inOldSandbox: boolean,
): StartWork {
  const tokens = secrets.providers(userId);
  const provider = gitProvider as Repository["provider"] | null;
  const repository = selectedRepository ? resolveRepository(selectedRepository, provider, tokens) : undefined;
  if (repository && selectedBranch) checkBranch(selectedBranch);
  const asked = request.plugins ?? [];
  const plugins = asked.map((plugin) => parsePlugin(plugin, tokens));
  const first = request.suggested_task
    ? [textContent(suggestedTaskPrompt(request.suggested_task))]
    : request.initial_message && parseContent(request.initial_message.content);
  const preparesFirst = repository !== undefined || plugins.length > 0 || inOldSandbox;
  return { message: appendParameters(first ?? undefined, asked), repository, plugins, preparesFirst };
}

/** Hosts, with their ports, from which a start clones. */
export function sourceHosts({ repository, plugins }: Pick<StartWork, "repository" | "plugins">): string[] {
  const sources = [repository, ...plugins.map((plugin) => plugin.repository)].filter(
    (one) => one !== undefined,
  );
  return sources.map(({ url }) => {
    const { hostname, port, protocol } = new URL(url);
    return `${hostname}:${port || (protocol === "http:" ? 80 : 443)}`;
  });
}

function findParent({ store }: PlanDeps, userId: string, text: string): ConversationRow {
  const id = parseId(text);
  const parent = id ? store.conversations.get(id) : undefined;
  if (parent?.userId === userId) return parent;
  throw new PlatformError("ConversationNotFound", "The parent conversation does not exist.");
}

function invalid(message: string): PlatformError {
  return new PlatformError("InvalidParameter", message);
}
