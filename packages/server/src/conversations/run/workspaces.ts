import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Settings } from "../../users/api.ts";
import { getGitIdentity } from "../project/clone.ts";
import { Workspace } from "./workspace.ts";

/** How long a conversation rests before what is kept for it is let go, ms. */
const unloadAfterMs = 10 * 60_000;
/** How often is looked for such, ms. */
const checkEveryMs = 60_000;

export interface WorkspacesDeps {
  sandboxes: Sandboxes;
  settings: Settings;
  /** Whether a run of a conversation goes on, or waits for its turn. */
  isAwake(row: Pick<ConversationRow, "id" | "userId">): boolean;
  /** Told when a conversation was unloaded. */
  onUnload(conversationId: string): void;
}

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

/**
 * The hands of the conversations that work or worked lately. One that has rested for a while and has no shell any more is unloaded: a thousand idle
 * conversations cost as little as their rows. A shell lives as long as its sandbox's processes, so a conversation is unloaded after the hibernation at last.
 */
export class Workspaces {
  readonly #deps: WorkspacesDeps;
  /** With the moment since which each rests, ms on the clock that never jumps. */
  readonly #loaded = new Map<string, { row: Row; workspace: Workspace; restsSince: number | undefined }>();
  readonly #timer: NodeJS.Timeout;

  constructor(deps: WorkspacesDeps) {
    this.#deps = deps;
    this.#timer = setInterval(() => this.unload(), checkEveryMs).unref();
  }

  /** That of a conversation, made where there is none. */
  getOrCreate(row: Row): Workspace {
    const known = this.#loaded.get(row.id)?.workspace;
    if (known) return known;
    const { sandboxes, settings, isAwake } = this.#deps;
    const { id, userId } = row;
    // Who waits for a turn needs the sandbox soon.
    const awake = () => isAwake({ id, userId });
    const workspace = new Workspace(sandboxes, row, awake, () => getGitIdentity(settings.agent(userId)));
    this.#loaded.set(id, { row, workspace, restsSince: undefined });
    return workspace;
  }

  get(conversationId: string): Workspace | undefined {
    return this.#loaded.get(conversationId)?.workspace;
  }

  /** The loaded workspaces in a sandbox. */
  inSandbox(sandboxId: string): { workspace: Workspace; isAwake: boolean }[] {
    return [...this.#loaded.values()]
      .filter(({ row }) => row.sandboxId === sandboxId)
      .map(({ row, workspace }) => ({ workspace, isAwake: this.#deps.isAwake(row) }));
  }

  /** Unloads what has rested for that long, ms. */
  unload(restedMs = unloadAfterMs): void {
    const now = performance.now();
    for (const [id, kept] of this.#loaded) {
      if (this.#deps.isAwake(kept.row) || !kept.workspace.isIdle) kept.restsSince = undefined;
      else kept.restsSince ??= now;
      if (kept.restsSince !== undefined && now - kept.restsSince >= restedMs) this.#unload(id);
    }
  }

  /** The conversation is gone. */
  remove(conversationId: string): void {
    this.get(conversationId)?.close({ removed: true });
    this.#loaded.delete(conversationId);
  }

  /** The server ends, and the conversations go on in the next one. */
  close(): void {
    clearInterval(this.#timer);
    for (const id of this.#loaded.keys()) this.#unload(id);
  }

  #unload(id: string): void {
    this.get(id)?.close();
    this.#loaded.delete(id);
    this.#deps.onUnload(id);
  }
}
