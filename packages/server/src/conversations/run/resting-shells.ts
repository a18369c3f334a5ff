import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { listConversationShells } from "./held-shells.ts";
import type { ConversationWorkspace } from "./workspace.ts";

/** A sandbox keeps one resting shell for each of so many processes of its limit. */
const processesPerShell = 32;

interface Owner {
  workspace: Pick<ConversationWorkspace, "shellRestsSince" | "endRestingShell">;
  /** A run continues. */
  isAwake: boolean;
}

export interface RestingShellsDeps {
  /** The loaded workspaces in a sandbox. */
  inSandbox(sandboxId: string): (Owner & { id: string })[];
  /** Loads the workspace of a conversation. Returns undefined when it was removed. */
  load(conversationId: string): Promise<Owner | undefined>;
}

interface Known {
  sandbox: Sandbox;
  /** The conversations whose shells an earlier server has left, the oldest shell first. */
  left: Promise<Set<string>>;
  /** A look at the shells waits for the end of the last one. */
  isWaiting: boolean;
  last: Promise<void>;
}

/**
 * Bounds the resting shells of each sandbox, because the processes of each shell count towards the
 * limit of the sandbox. The shell that has rested longest ends first; its state is saved. A shell
 * with background jobs stays.
 */
export class RestingShells {
  readonly #deps: RestingShellsDeps;
  readonly #known = new Map<string, Known>();

  constructor(deps: RestingShellsDeps) {
    this.#deps = deps;
  }

  /** Called when a conversation begins to use a shell in a sandbox. */
  use(sandbox: Sandbox): void {
    const { id, incarnation } = sandbox;
    if (this.#known.get(id)?.sandbox.incarnation !== incarnation) {
      // Without the list, only the shells of this server are bounded.
      const left = listConversationShells(sandbox).then(
        (ids) => new Set(ids),
        () => new Set<string>(),
      );
      this.#known.set(id, { sandbox, left, isWaiting: false, last: Promise.resolve() });
    }
    this.bound(id);
  }

  /** Ends resting shells above the limit of a sandbox in the background. */
  bound(sandboxId: string): void {
    const known = this.#known.get(sandboxId);
    if (!known || known.isWaiting) return;
    known.isWaiting = true;
    known.last = known.last.then(async () => {
      known.isWaiting = false;
      // A sandbox that stops ends its shells itself.
      await this.#bound(known).catch(() => {});
    });
  }

  /** Forgets a sandbox in which no workspace is loaded. */
  forgetUnused(sandboxId: string): void {
    if (this.#deps.inSandbox(sandboxId).length === 0) this.#known.delete(sandboxId);
  }

  async #bound({ sandbox, left }: Known): Promise<void> {
    const others = await left;
    const loaded = this.#deps.inSandbox(sandbox.id);
    for (const { id } of loaded) others.delete(id);
    const resting = loaded
      .flatMap(({ workspace, isAwake }) => {
        const since = workspace.shellRestsSince;
        return isAwake || since === undefined ? [] : [{ workspace, since }];
      })
      .sort((one, other) => one.since - other.since);
    const max = Math.ceil(sandbox.spec.limits.pids / processesPerShell);
    let excess = others.size + resting.length - max;
    for (const id of others) {
      if (excess <= 0) return;
      others.delete(id);
      const owner = await this.#deps.load(id);
      if (owner && !owner.isAwake && (await end(owner))) excess -= 1;
    }
    for (const owner of resting) {
      if (excess <= 0) return;
      if (await end(owner)) excess -= 1;
    }
  }
}

/** Ends a resting shell. Returns false when the shell stays. */
function end({ workspace }: Pick<Owner, "workspace">): Promise<boolean> {
  return workspace.endRestingShell().catch(() => false);
}
