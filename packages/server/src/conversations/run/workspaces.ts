import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Settings } from "../../users/api.ts";
import { getGitIdentity } from "../project/clone.ts";
import { RestingShells } from "./resting-shells.ts";
import { ConversationWorkspace } from "./workspace.ts";

/** Rest after which a workspace is unloaded, ms. */
const unloadAfterMs = 10 * 60_000;
/** Interval of the check, ms. */
const checkEveryMs = 60_000;

export interface WorkspacesDeps {
  sandboxes: Sandboxes;
  settings: Settings;
  /** Whether a run continues or waits for a slot. */
  isAwake(row: Pick<ConversationRow, "id" | "userId">): boolean;
  /** Returns the epoch of this server's ownership of a sandbox. Throws OwnershipLost. */
  epoch(sandboxId: string): number;
  /** Reads a conversation; undefined when it was removed. */
  find(conversationId: string): Promise<Row | undefined>;
  /** Drops other in-memory state of a conversation that is unloaded or removed. */
  onUnload(conversationId: string): void;
}

export type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

/**
 * The workspaces of conversations that worked recently. A resting one without a shell is unloaded,
 * so that an idle conversation costs only its row. Hibernation ends shells, so each workspace is
 * unloaded eventually.
 */
export class Workspaces {
  readonly #deps: WorkspacesDeps;
  /** `restsSince` is a time of the monotonic clock, ms. */
  readonly #loaded = new Map<
    string,
    { row: Row; workspace: ConversationWorkspace; restsSince: number | undefined }
  >();
  readonly #timer: NodeJS.Timeout;
  readonly #restingShells = new RestingShells({
    inSandbox: (sandboxId) => this.inSandbox(sandboxId),
    load: async (conversationId) => {
      const row = await this.#deps.find(conversationId);
      return row && { workspace: this.getOrCreate(row), isAwake: this.#deps.isAwake(row) };
    },
  });

  constructor(deps: WorkspacesDeps) {
    this.#deps = deps;
    this.#timer = setInterval(() => this.unload(), checkEveryMs).unref();
  }

  getOrCreate(row: Row): ConversationWorkspace {
    const loaded = this.#loaded.get(row.id)?.workspace;
    if (loaded) return loaded;
    const { sandboxes, settings, isAwake, epoch } = this.#deps;
    const { id, userId } = row;
    // A conversation that waits for a slot needs its sandbox soon.
    const awake = () => isAwake({ id, userId });
    const identity = async () => getGitIdentity(await settings.agent(userId));
    const workspace = new ConversationWorkspace(
      {
        ...{ sandboxes, isAwake: awake, identity, epoch: () => epoch(row.sandboxId) },
        onTerminal: (sandbox) => this.#restingShells.use(sandbox),
      },
      row,
    );
    this.#loaded.set(id, { row, workspace, restsSince: undefined });
    return workspace;
  }

  get(conversationId: string): ConversationWorkspace | undefined {
    return this.#loaded.get(conversationId)?.workspace;
  }

  /** The loaded workspaces in a sandbox. */
  inSandbox(sandboxId: string): { id: string; workspace: ConversationWorkspace; isAwake: boolean }[] {
    return [...this.#loaded.values()]
      .filter(({ row }) => row.sandboxId === sandboxId)
      .map(({ row, workspace }) => ({ id: row.id, workspace, isAwake: this.#deps.isAwake(row) }));
  }

  /** Called when the run of a conversation has ended. */
  rest(conversationId: string): void {
    const sandboxId = this.#loaded.get(conversationId)?.row.sandboxId;
    if (sandboxId !== undefined) this.#restingShells.bound(sandboxId);
  }

  /** The conversations with a loaded workspace in sandboxes. */
  rowsIn(sandboxIds: ReadonlySet<string>): Row[] {
    return [...this.#loaded.values()].flatMap(({ row }) => (sandboxIds.has(row.sandboxId) ? [row] : []));
  }

  /** Releases the workspaces of sandboxes that another node uses from now on. */
  leave(sandboxIds: ReadonlySet<string>): void {
    for (const { id } of this.rowsIn(sandboxIds)) this.#unload(id);
  }

  /** Unloads workspaces that have rested for `restedMs`. */
  unload(restedMs = unloadAfterMs): void {
    const now = performance.now();
    for (const [id, entry] of this.#loaded) {
      if (this.#deps.isAwake(entry.row) || !entry.workspace.isIdle) entry.restsSince = undefined;
      else entry.restsSince ??= now;
      if (entry.restsSince !== undefined && now - entry.restsSince >= restedMs) this.#unload(id);
    }
  }

  remove(conversationId: string): void {
    this.#deps.onUnload(conversationId);
    this.get(conversationId)?.close({ removed: true });
    this.#loaded.delete(conversationId);
  }

  /** Releases all workspaces; the next process continues their conversations. */
  close(): void {
    clearInterval(this.#timer);
    for (const id of this.#loaded.keys()) this.#unload(id);
  }

  #unload(id: string): void {
    const sandboxId = this.#loaded.get(id)?.row.sandboxId;
    this.get(id)?.close();
    this.#loaded.delete(id);
    this.#deps.onUnload(id);
    if (sandboxId !== undefined) this.#restingShells.forgetUnused(sandboxId);
  }
}
