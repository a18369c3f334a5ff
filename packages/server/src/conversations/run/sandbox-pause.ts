import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { ConversationStore } from "../../store/conversation-store.ts";

export interface SandboxPauseDeps {
  sandboxes: Pick<Sandboxes, "onChange">;
  conversations: Pick<ConversationStore, "listBySandbox">;
  /** The loaded workspaces. */
  workspaces: {
    inSandbox(sandboxId: string): readonly { workspace: { pauseGate: PauseGate }; isAwake: boolean }[];
  };
  pause(conversationId: string): Promise<void>;
  /** Aborts the model call of a paused run. */
  abortCall(conversationId: string): void;
}

/**
 * Reacts to each pause of a sandbox: its running conversations are paused, and what their runs begin in it
 * waits instead of waking it. A sandbox that stopped with a reason fails these calls with that reason.
 */
export function handleSandboxPauses(deps: SandboxPauseDeps): () => void {
  return deps.sandboxes.onChange((change) => {
    const isPaused = "status" in change && change.status === "PAUSED";
    for (const { workspace, isAwake } of deps.workspaces.inSandbox(change.id)) {
      if (!isPaused || change.statusDetail !== null) workspace.pauseGate.open();
      else if (isAwake) workspace.pauseGate.close();
    }
    if (isPaused) void pauseConversations(deps, change.id);
  });
}

async function pauseConversations(deps: SandboxPauseDeps, sandboxId: string): Promise<void> {
  for (const row of deps.conversations.listBySandbox(sandboxId)) {
    if (row.summary.executionStatus !== "running") continue;
    await deps.pause(row.id).catch(() => {});
    // The run could not act on the answer of its model call, and a call that hangs would delay the next message.
    deps.abortCall(row.id);
  }
}

/** Holds back what a run begins in a sandbox that was paused during the run. */
export class PauseGate {
  #closed: PromiseWithResolvers<void> | undefined;

  /** Resolves when the sandbox may be woken. Throws SandboxFailed when the run ends first. */
  async wait(): Promise<void> {
    await this.#closed?.promise;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = Promise.withResolvers();
    this.#closed.promise.catch(() => {});
  }

  /** What waits continues and wakes the sandbox. */
  open(): void {
    this.#closed?.resolve();
    this.#closed = undefined;
  }

  /** What waits fails; the gate stays closed until the next run. */
  cancel(): void {
    this.#closed?.reject(new PlatformError("SandboxFailed", "The sandbox is paused."));
  }
}
