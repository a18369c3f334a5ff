import { posix } from "node:path";
import { toHookConfig } from "@sandpiper/agent/hooks/config";
import { checkAnalyzer } from "@sandpiper/agent/risk/choose-analyzer";
import { inlineCommands } from "@sandpiper/agent/skills/inline-commands";
import { mergeSkills, type Skill } from "@sandpiper/agent/skills/skill";
import { checkTools } from "@sandpiper/agent/tools/choose";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Content, SecretSource, StartConversationRequest } from "@sandpiper/wire";
import { newId } from "@sandpiper/wire";
import type { AgentDocument } from "../../store/conversation-parts.ts";
import type { ConversationConfig, NewConversation } from "../../store/conversation-store.ts";
import { emptyConfig } from "../../store/empty-config.ts";
import type { Store } from "../../store/store.ts";
import type { Settings } from "../../users/api.ts";
import type { ClientSecrets } from "../agent/client-secrets.ts";
import { checkClientSize } from "../agent/client-size.ts";
import type { OutputMasks } from "../agent/output-masks.ts";
import { makeTitle, parseContent } from "../log/messages.ts";
import { type PluginFetcher, withPlugins } from "../project/plugin-parts.ts";
import { appendParameters } from "../project/plugins.ts";
import { createWorktree } from "../project/worktree.ts";
import { findParent, requireStartSandbox } from "./checks.ts";
import { parseClientSkills, resolveAgent } from "./client-agent.ts";
import { parseDefinitions } from "./client-definitions.ts";

export interface CreationPlansDeps {
  store: Pick<Store, "conversations">;
  settings: Settings;
  sandboxes: Pick<Sandboxes, "get" | "running">;
  secrets: Pick<ClientSecrets, "resolve">;
  masks: Pick<OutputMasks, "forUser">;
  plugins: Pick<PluginFetcher, "fetch">;
}

/** The existing sandbox in which a conversation is created. */
export interface SandboxTarget {
  userId: string;
  sandboxId: string;
}

/** A conversation that can be stored. */
export interface CreationPlan {
  row: NewConversation & { message?: { id: string; content: Content[] } };
  /** Undefined when the settings describe the agent. */
  document: AgentDocument | undefined;
  secrets: { sources: Readonly<Record<string, SecretSource>>; values: Record<string, string> };
}

/** Plans conversations in existing sandboxes from requests (agent-server.md section 3). */
export class CreationPlans {
  readonly #deps: CreationPlansDeps;

  constructor(deps: CreationPlansDeps) {
    this.#deps = deps;
  }

  /**
   * Only plugins and a worktree wait for the sandbox. Throws InvalidParameter, ProfileNotFound,
   * SandboxNotFound, and what `PluginFetcher.fetch` and `createWorktree` throw.
   */
  async plan(
    id: string,
    { userId, sandboxId }: SandboxTarget,
    request: StartConversationRequest,
  ): Promise<CreationPlan> {
    const { store, settings, sandboxes, secrets, masks, plugins } = this.#deps;
    await requireStartSandbox(sandboxes, userId, sandboxId);
    if (request.conversation_runtime === "docker") throw new PlatformError("RuntimeUnsupported");
    const { parent_conversation_id: parentText } = request;
    const parent = parentText ? await findParent(store, userId, parentText) : undefined;
    if (parentText && parent?.sandboxId !== sandboxId)
      throw new PlatformError("ParentNotInSandbox", { id: parentText });
    const { agent, condenser, launched } = await resolveAgent(settings, userId, request);
    const clientTools = request.client_tools ?? [];
    const keptTools = checkTools(agent, clientTools);
    const definitions = parseDefinitions(request.agent_definitions);
    const specs = request.plugins ?? [];
    const first = request.initial_message ? parseContent(request.initial_message.content) : undefined;
    const content = first && appendParameters(first, specs);
    if (request.security_analyzer) checkAnalyzer(request.security_analyzer);
    const sources = { ...agent?.agent_context?.secrets, ...request.secrets };
    const values = await secrets.resolve({ userId, sandboxId }, sources);
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
      ...(definitions.length > 0 && { definitions }),
    };
    checkClientSize(document);
    if (Object.keys(document).length > 0) config.ownAgent = true;
    const title =
      (request.autotitle !== false && content && makeTitle(content, await masks.forUser(userId))) || null;
    // Stored with the conversation, so that the next process sends it after a crash.
    const message = content && { id: newId(), content };
    // Plugins and worktree come before anything is stored: their errors leave nothing behind.
    const skills = parseClientSkills(agent);
    const hooks = [request.hook_config, ...definitions.map((one) => one.hooks)].map((one) =>
      toHookConfig(one),
    );
    const finds = hooks.some((one) => one && Object.keys(one).length > 0) || skills.some(actsByItself);
    const place = { userId, sandboxId, workingDir: config.workingDir };
    const fetched = await plugins.fetch(place, specs, { finds });
    const parts = { ...fetched, skills: mergeSkills(skills, fetched.skills) };
    const context = withPlugins({ skills: [], notes: [] }, parts);
    if (request.worktree)
      Object.assign(
        config,
        await createWorktree(
          sandboxes,
          { id, sandboxId },
          config.workingDir,
          request.worktree_options ?? undefined,
        ),
      );

    const row = {
      id,
      userId,
      sandboxId,
      config,
      title,
      parentId: parent?.id ?? null,
      createdAt: Date.now(),
      ...((context.skills.length > 0 || context.plugins) && {
        context: { document: context, activated: [] },
      }),
      ...(message && { message }),
    };
    return { row, document: config.ownAgent ? document : undefined, secrets: { sources, values } };
  }
}

/**
 * Whether a skill does more than to describe: clients send the skills of a project as their own.
 */
function actsByItself({ mcpServers, content }: Skill): boolean {
  return mcpServers !== undefined || inlineCommands(content).length > 0;
}
