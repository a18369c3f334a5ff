import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { newSandboxId } from "@sandpiper/sandbox/ids";
import { type AppConversationStartRequest, hexId } from "@sandpiper/wire";
import type { NewConversation } from "../../store/conversation-store.ts";
import type { StartTaskRow } from "../../store/start-task-store.ts";
import type { SandboxJoins } from "../sandbox-joins.ts";
import { findSharedSandbox } from "./grouping.ts";
import { type Plan, type PlanDeps, planStart, planWork, type StartWork } from "./start-plan.ts";

export interface StartPlansDeps extends PlanDeps {
  sandboxes: Pick<Sandboxes, "get" | "getSpec" | "resolveSpec" | "search">;
  joins: Pick<SandboxJoins, "mayJoin" | "join">;
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

const noop = () => {};

/** Plans starts from requests and, after a restart, from their stored tasks. */
export class StartPlans {
  readonly #deps: StartPlansDeps;

  constructor(deps: StartPlansDeps) {
    this.#deps = deps;
  }

  /** Throws as `planStart`, and SandboxNotFound. */
  async plan(
    userId: string,
    request: AppConversationStartRequest,
  ): Promise<Omit<Start, keyof StartControl | "task">> {
    const plan = await planStart(this.#deps, userId, request);
    const { sandboxId } = plan;
    const joined = sandboxId
      ? { sandboxId, leave: await this.#deps.joins.join(userId, sandboxId) }
      : await this.#joinShared(plan, request);
    const conversation = { ...plan.conversation, sandboxId: joined?.sandboxId ?? newSandboxId() };
    const of = { ownsSandbox: !joined, hasSandbox: joined !== undefined };
    return { conversation, work: plan.work, ...of, leave: joined?.leave ?? noop };
  }

  /** Joins a sandbox that the conversation may share, if there is one. */
  async #joinShared(
    plan: Plan,
    request: AppConversationStartRequest,
  ): Promise<{ sandboxId: string; leave: () => void } | undefined> {
    const { joins } = this.#deps;
    for (;;) {
      const sandboxId = await findSharedSandbox(this.#deps, plan, request);
      if (sandboxId === undefined) return undefined;
      try {
        return { sandboxId, leave: await joins.join(plan.conversation.userId, sandboxId) };
      } catch (error) {
        // The sandbox was removed after it was found.
        if (!(error instanceof PlatformError && error.code === "SandboxNotFound")) throw error;
      }
    }
  }

  /** The start of an earlier process, which may have stored the conversation. Throws as `plan`. */
  async planAgain(task: StartTaskRow, control: StartControl): Promise<{ start: Start; isStored: boolean }> {
    const { store, sandboxes, joins, settings } = this.#deps;
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
    const leave = hasSandbox ? await joins.join(userId, conversation.sandboxId) : noop;
    const of = { ownsSandbox: !hasSandbox || ownsSandbox, hasSandbox, leave };
    const start = { task, conversation, work: plan.work, ...of, ...control };
    return { start, isStored: false };
  }
}
