import { PlatformError } from "@sandpiper/core/errors";
import { newSandboxId } from "@sandpiper/sandbox/ids";
import { type AppConversationStartRequest, hexId } from "@sandpiper/wire";
import type { NewConversation } from "../../store/conversation-store.ts";
import type { StartTaskRow } from "../../store/start-task-store.ts";
import type { SandboxGroups } from "./sandbox-groups.ts";
import { type Plan, type PlanDeps, planStart, planWork, type StartWork } from "./start-plan.ts";

export interface StartPlansDeps extends PlanDeps {
  groups: Pick<SandboxGroups, "join" | "joinNamed">;
}

/** What a start does. */
export interface Start {
  task: StartTaskRow;
  conversation: NewConversation;
  work: StartWork;
  /** Whether the sandbox is created for this conversation. */
  ownsSandbox: boolean;
  /** Whether the sandbox exists. */
  hasSandbox: boolean;
  /** Ends that an existing sandbox is kept until the conversation is stored. */
  leave: () => void;
  /** This signal is aborted at shutdown and when the sandbox goes to another node. */
  signal: AbortSignal;
  /**
   * Returns the incarnation of this node; undefined in a server that is alone. Throws OwnershipLost
   * when another node has the start, or this node has lost its lease.
   */
  requireOwner(): Promise<string | undefined>;
}

/** What ends a start that another node continues. */
export type StartControl = Pick<Start, "signal" | "requireOwner">;

/** A start whose sandbox is chosen, before its task is stored. */
export interface PlacedStart extends Omit<Start, keyof StartControl | "task"> {
  /** As `StartParts.newest`. */
  newest: number | undefined;
}

const noop = () => {};

/** Plans starts from requests and, after a restart, from their stored tasks. */
export class StartPlans {
  readonly #deps: StartPlansDeps;

  constructor(deps: StartPlansDeps) {
    this.#deps = deps;
  }

  /** Throws as `planStart`. */
  plan(userId: string, request: AppConversationStartRequest): Promise<Plan> {
    return planStart(this.#deps, userId, request);
  }

  /**
   * Chooses the sandbox of a planned start, and joins it if it exists. Throws SandboxNotFound, and
   * SandboxElsewhere when another node owns a sandbox that the conversation shares.
   */
  async place(plan: Plan, request: AppConversationStartRequest): Promise<PlacedStart> {
    const { conversation, work } = plan;
    const { joined, newest } = await this.#deps.groups.join(plan, request);
    return {
      conversation: { ...conversation, sandboxId: joined?.sandboxId ?? newSandboxId() },
      work,
      ownsSandbox: !joined,
      hasSandbox: joined !== undefined,
      leave: joined?.leave ?? noop,
      newest,
    };
  }

  /** The start of an earlier process, which may have stored the conversation. Throws as `plan`. */
  async planAgain(task: StartTaskRow, control: StartControl): Promise<{ start: Start; isStored: boolean }> {
    const { store, sandboxes, groups, settings } = this.#deps;
    const { userId, conversationId } = task;
    const request = task.request as AppConversationStartRequest;
    const stored = await store.conversations.get(conversationId);
    const isNamed = Boolean(request.sandbox_id || request.parent_conversation_id);
    const strategy = (await settings.view(userId)).sandbox_grouping_strategy ?? "NO_GROUPING";
    const ownsSandbox = !isNamed && strategy === "NO_GROUPING";
    if (stored) {
      if (stored.userId !== userId || stored.sandboxId !== (task.sandboxId ?? stored.sandboxId))
        throw new PlatformError("ConversationIdTaken", { id: hexId(conversationId) });
      const work = await planWork(this.#deps, userId, request, stored.config, isNamed);
      const of = { ownsSandbox, hasSandbox: true, leave: noop };
      return { start: { task, conversation: stored, work, ...of, ...control }, isStored: true };
    }
    const plan = await planStart(this.#deps, userId, { ...request, conversation_id: conversationId }).catch(
      (error: unknown) => {
        if (error instanceof PlatformError && error.code === "ConversationExists") return undefined;
        throw error;
      },
    );
    // An earlier node has stored the conversation meanwhile.
    if (!plan) return this.planAgain(task, control);
    // A sandbox that was created for it already has its network.
    const hasSandbox = task.sandboxId !== null && (await sandboxes.get(userId, task.sandboxId)) !== undefined;
    const conversation = { ...plan.conversation, sandboxId: task.sandboxId ?? newSandboxId() };
    const leave = hasSandbox ? await groups.joinNamed(userId, conversation.sandboxId) : noop;
    const of = { ownsSandbox: !hasSandbox || ownsSandbox, hasSandbox, leave };
    const start = { task, conversation, work: plan.work, ...of, ...control };
    return { start, isStored: false };
  }
}
