import { abortable } from "@sandpiper/core/abortable";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { withRepositoryHost } from "@sandpiper/sandbox/network/policy/repository-rule";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { toNetworkPolicy } from "@sandpiper/sandbox/specs/network-override";
import type { AppConversationStartRequest } from "@sandpiper/wire";
import type { Workspaces } from "../run/workspaces.ts";
import type { Start } from "./start-plans.ts";
import { sourceHosts } from "./start-sources.ts";
import type { TaskFeed } from "./task-feed.ts";

export interface StartSandboxesDeps {
  sandboxes: Pick<Sandboxes, "acquire" | "create" | "onChange" | "resolveSpec" | "running">;
  workspaces: Pick<Workspaces, "getOrCreate">;
  tasks: Pick<TaskFeed, "update">;
}

/** Creates the sandboxes of starts and waits for them. */
export class StartSandboxes {
  readonly #deps: StartSandboxesDeps;

  constructor(deps: StartSandboxesDeps) {
    this.#deps = deps;
  }

  /**
   * Chooses the spec of the sandbox, with access to the hosts of the repository and the plugins.
   * The returned function creates the sandbox; it begins with the write, and no read comes before.
   */
  async prepare(
    start: Start,
    request: AppConversationStartRequest,
  ): Promise<(after: Promise<void>) => Promise<unknown>> {
    const { sandboxes } = this.#deps;
    const { userId, sandboxId: id } = start.conversation;
    const spec = await sandboxes.resolveSpec(userId, request.sandbox_spec_id ?? undefined);
    const requested = request.network ? toNetworkPolicy(request.network) : undefined;
    const hosts = sourceHosts(start.work);
    let network = requested;
    if (hosts.length > 0) {
      const policy = { ...spec.network, ...requested };
      for (const host of hosts) Object.assign(policy, withRepositoryHost(policy, host));
      network = { mode: policy.mode, allow: policy.allow };
    }
    return (after) => sandboxes.create(userId, undefined, { id, spec, after, ...(network && { network }) });
  }

  /** The running sandbox; until then the task shows the progress of its start. */
  async wait({ task, conversation: { sandboxId }, signal }: Start): Promise<Sandbox> {
    const { sandboxes, tasks } = this.#deps;
    const unfollow = sandboxes.onChange((row) => {
      if (signal.aborted || row.id !== sandboxId || !("status" in row) || row.status !== "STARTING") return;
      tasks.update(task.id, { detail: row.statusDetail }).catch(() => {});
    });
    return abortable(sandboxes.running(sandboxId), signal).finally(unfollow);
  }

  /**
   * The sandbox of a conversation that has started: what is done in it does not wake the sandbox
   * from a pause, but waits until somebody else does.
   */
  watch({ conversation: { sandboxId }, signal }: Start): Promise<Sandbox> {
    const { sandboxes } = this.#deps;
    return abortable(
      sandboxes.running(sandboxId, () => this.#untilRunning(sandboxId, signal)),
      signal,
    );
  }

  /** Resolves when the sandbox runs, has failed or is gone. Throws the reason of the signal. */
  #untilRunning(sandboxId: string, signal: AbortSignal): Promise<void> {
    const { sandboxes } = this.#deps;
    const { promise, resolve } = Promise.withResolvers<void>();
    const unfollow = sandboxes.onChange((row) => {
      if (row.id === sandboxId && !("status" in row && isAsleep(row.status))) resolve();
    });
    return abortable(promise, signal).finally(unfollow);
  }

  /** Enters the working folder of the conversation in its running sandbox. */
  async enter({ conversation, signal }: Start): Promise<void> {
    const { workspaces } = this.#deps;
    await abortable(workspaces.getOrCreate(conversation).sandbox(), signal);
  }

  /** Keeps the sandbox from being paused for another one until the returned function is called. */
  hold({ conversation: { sandboxId } }: Start): () => void {
    return this.#deps.sandboxes.acquire(sandboxId, { busy: () => true, beforeStop: async () => {} });
  }

  /** Blocks the sandbox for the conversation's tools until the returned function is called. */
  block({ conversation }: Start): () => void {
    return this.#deps.workspaces.getOrCreate(conversation).block();
  }
}

function isAsleep(status: SandboxRow["status"]): boolean {
  return status === "PAUSED" || status === "STARTING";
}
