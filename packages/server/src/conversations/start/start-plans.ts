import type { Sandboxes } from "@sandpiper/sandbox/api";
import { newSandboxId } from "@sandpiper/sandbox/ids";
import type { AppConversationStartRequest } from "@sandpiper/wire";
import type { NewConversation } from "../../store/conversation-store.ts";
import type { StartTaskRow } from "../../store/start-task-store.ts";
import type { SandboxJoins } from "../sandbox-joins.ts";
import { findSharedSandbox } from "./grouping.ts";
import { type PlanDeps, planStart, planWork, type StartWork } from "./start-plan.ts";

export interface StartPlansDeps extends PlanDeps {
  sandboxes: Pick<Sandboxes, "get" | "getSpec" | "resolveSpec" | "search">;
  joins: Pick<SandboxJoins, "isOpen" | "join">;
}

/** What a start does. */
export interface Start {
  task: StartTaskRow;
  conversation: NewConversation;
  work: StartWork;
  /** Whether the sandbox is created for this conversation. */
  ownsSandbox: boolean;
  /** Ends that an existing sandbox is kept until the conversation is stored. */
  leave: () => void;
}

const noop = () => {};

/** Plans starts from requests and, after a restart, from their stored tasks. */
export class StartPlans {
  readonly #deps: StartPlansDeps;

  constructor(deps: StartPlansDeps) {
    this.#deps = deps;
  }

  /** Throws as `planStart`, and SandboxNotFound. */
  plan(
    userId: string,
    request: AppConversationStartRequest,
    isStarting: (conversationId: string) => boolean,
  ): Omit<Start, "task"> {
    const plan = planStart(this.#deps, userId, request, isStarting);
    const shared = plan.sandboxId ?? findSharedSandbox(this.#deps, plan, request);
    const conversation = { ...plan.conversation, sandboxId: shared ?? newSandboxId() };
    const leave = shared === undefined ? noop : this.#deps.joins.join(userId, shared);
    return { conversation, work: plan.work, ownsSandbox: shared === undefined, leave };
  }

  /** The start of an earlier process, which may have stored the conversation. Throws as `plan`. */
  planAgain(task: StartTaskRow): { start: Start; isStored: boolean } {
    const { store, sandboxes, joins, settings } = this.#deps;
    const { userId, conversationId } = task;
    const request = task.request as AppConversationStartRequest;
    const stored = store.conversations.get(conversationId);
    const isNamed = Boolean(request.sandbox_id || request.parent_conversation_id);
    if (stored) {
      const work = planWork(this.#deps, userId, request, stored.config, isNamed);
      const strategy = settings.view(userId).sandbox_grouping_strategy ?? "NO_GROUPING";
      const ownsSandbox = !isNamed && strategy === "NO_GROUPING";
      const start = { task, conversation: stored, work, ownsSandbox, leave: noop };
      return { start, isStored: true };
    }
    // A sandbox that was created for it already has its network.
    const hasSandbox = task.sandboxId !== null && sandboxes.get(userId, task.sandboxId) !== undefined;
    const sameId = { ...request, conversation_id: conversationId };
    const plan = planStart(this.#deps, userId, sameId, () => false);
    const conversation = { ...plan.conversation, sandboxId: task.sandboxId ?? newSandboxId() };
    const { sandboxId } = conversation;
    const leave = hasSandbox ? joins.join(userId, sandboxId) : noop;
    const start = { task, conversation, work: plan.work, ownsSandbox: !hasSandbox, leave };
    return { start, isStored: false };
  }
}
