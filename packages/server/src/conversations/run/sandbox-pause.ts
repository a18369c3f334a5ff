import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { ConversationStore } from "../../store/conversation-store.ts";

export interface SandboxPauseDeps {
  sandboxes: Pick<Sandboxes, "onChange">;
  conversations: Pick<ConversationStore, "listBySandbox">;
  workspaces: {
    inSandbox(sandboxId: string): readonly { workspace: { pauseGate: PauseGate }; isAwake: boolean }[];
  };
  pause(conversationId: string): Promise<void>;
  /** Aborts the model call of a paused run. False: the run continues with the sandbox. */
  abortCall(conversationId: string): boolean;
  announceEnd(conversationId: string): void;
}

/**
 * Reacts to each pause of a sandbox: pauses its running conversations, and blocks what their
 * runs begin in it. Calls in a sandbox that stopped with a reason fail with that reason.
 */
export function handleSandboxPauses(deps: SandboxPauseDeps): () => void {
  return deps.sandboxes.onChange((change) => {
    const isPaused = "status" in change && change.status === "PAUSED";
    for (const { workspace, isAwake } of deps.workspaces.inSandbox(change.id)) {
      if (!isPaused || change.statusDetail !== null) workspace.pauseGate.open();
      else if (isAwake) workspace.pauseGate.close();
    }
    // When the rows cannot be read, the gates of the runs still keep the sandbox paused.
    if (isPaused) pauseConversations(deps, change.id).catch(() => {});
  });
}

async function pauseConversations(deps: SandboxPauseDeps, sandboxId: string): Promise<void> {
  for (const row of await deps.conversations.listBySandbox(sandboxId)) {
    if (row.summary.executionStatus !== "running") continue;
    await deps.pause(row.id).catch(() => {});
    // The answer of a model call would be useless, and a call that hangs would delay the next
    // message.
    const ends = deps.abortCall(row.id);
    // A frozen command may go on in days; whoever waits for the run learns now that it is paused.
    if (!ends) deps.announceEnd(row.id);
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

  /** Lets waiting calls continue, which wakes the sandbox. */
  open(): void {
    this.#closed?.resolve();
    this.#closed = undefined;
  }

  /** Fails the waiting calls; the gate stays closed until the next run. */
  cancel(): void {
    this.#closed?.reject(new PlatformError("PausedDuringCall"));
  }
}
