import type { NewEvent } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { McpTools } from "../agent/mcp.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import type { Toolsets } from "../agent/toolset.ts";
import type { ActiveRuns } from "../run/active-runs.ts";
import type { Workspaces } from "../run/workspaces.ts";

/** Maximum wait for the tools of a first message, ms. */
const prepareTimeoutMs = 15_000;

export interface OpeningsDeps {
  store: Pick<Store, "conversations" | "events">;
  knowledge: Pick<ProjectKnowledge, "loadMemory" | "systemPrompt">;
  toolsets: Pick<Toolsets, "forConversation">;
  mcp: Pick<McpTools, "prepare" | "linger">;
  runs: Pick<ActiveRuns, "isAwake">;
  workspaces: Pick<Workspaces, "getOrCreate">;
}

/** What the first message of a conversation is appended with. */
export interface Opening {
  prompt: NewEvent;
  /** Notes about its tools for the model and the user. */
  notes: readonly string[];
}

/** Opens conversations: the system prompt with the tools comes before the first message. */
export class Openings {
  readonly #deps: OpeningsDeps;
  /** First messages that are being appended, by conversation. */
  readonly #active = new Map<string, Promise<void>>();

  constructor(deps: OpeningsDeps) {
    this.#deps = deps;
  }

  /** Appends a message after earlier first messages; a first one gets its opening. */
  async append(
    row: ConversationRow,
    append: (row: ConversationRow, opening?: Opening) => Promise<void>,
  ): Promise<void> {
    const { store, knowledge, toolsets } = this.#deps;
    const { id } = row;
    if (row.head) return append(row);
    let earlier = this.#active.get(id);
    const hasWaited = earlier !== undefined;
    for (; earlier; earlier = this.#active.get(id)) await earlier;
    const { promise, resolve } = Promise.withResolvers<void>();
    // This happens before the first read, because two messages must not both find an empty log.
    this.#active.set(id, promise);
    const end = () => {
      if (this.#active.get(id) === promise) this.#active.delete(id);
      resolve();
    };
    try {
      const latest = hasWaited ? ((await store.conversations.get(id)) ?? row) : row;
      const hasBegun = latest.head === null ? (await store.events.lastSeq(id)) > 0 : latest.head !== "";
      if (hasBegun) {
        // Later messages need not wait until this one is stored.
        end();
        return await append(latest);
      }
      // The system prompt lists the tools, so they are prepared first (events.md section 5).
      const notes = await this.#prepare(latest, AbortSignal.timeout(prepareTimeoutMs)).catch(() => []);
      const prompt = await knowledge.systemPrompt(latest, await toolsets.forConversation(latest).tools);
      await append(latest, { prompt, notes });
    } finally {
      end();
    }
  }

  /** Prepares tools and memory. */
  async #prepare(row: ConversationRow, signal: AbortSignal): Promise<readonly string[]> {
    const { knowledge, mcp, runs, workspaces } = this.#deps;
    const [notes] = await Promise.all([
      mcp.prepare(row, signal),
      knowledge.loadMemory(row, () => workspaces.getOrCreate(row).sandbox(), signal),
    ]);
    // No run may follow that would close the servers, so they are closed after a while.
    if (!runs.isAwake(row.id)) mcp.linger(row.id);
    return notes;
  }
}
