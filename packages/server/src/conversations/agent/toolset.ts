import type { Tool } from "@sandpiper/agent/tools/tool";
import type { ConversationRow } from "../../store/conversation-store.ts";

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

/** A source of tools of a conversation. Earlier sources win when two tools have the same name. */
export interface ToolSource {
  /** The current tools in the order of the prompt; called at each step, so it must be cheap. */
  tools(row: Row): Promise<readonly Tool[]>;
  /**
   * Prepares the tools for a run in a bounded time; returns notes for the model and the user, each
   * once in a conversation. Throws only when the signal aborts.
   */
  prepare?(row: Row, signal: AbortSignal): Promise<readonly string[]>;
  /** The run has ended. */
  rest?(conversationId: string): void;
  /** The conversation was deleted or the server closes. */
  drop?(conversationId: string): void;
  /** Closes the tools of sandboxes that go to another node. */
  leave?(sandboxIds: ReadonlySet<string>): void;
  /** The server closes. */
  close?(): void;
}

export interface Toolset {
  /** The current tools, read at each access. */
  readonly tools: Promise<readonly Tool[]>;
  prepare(signal: AbortSignal): Promise<readonly string[]>;
}

/** Changes the tools of every conversation, such as for a replay. */
export type AdaptTools = (tools: readonly Tool[]) => readonly Tool[];

/** Combines the tool sources of conversations. */
export class Toolsets {
  readonly #sources: readonly ToolSource[];
  readonly #adapt: AdaptTools;

  constructor(sources: readonly ToolSource[], adapt: AdaptTools = (tools) => tools) {
    this.#sources = sources;
    this.#adapt = adapt;
  }

  forConversation(row: Row): Toolset {
    const sources = this.#sources;
    const adapt = this.#adapt;
    return {
      get tools() {
        return Promise.all(sources.map((source) => source.tools(row))).then((lists) =>
          adapt(lists.length === 1 ? lists[0]! : uniqueByName(lists.flat())),
        );
      },
      async prepare(signal) {
        const notes = await Promise.all(sources.map((source) => source.prepare?.(row, signal) ?? []));
        return notes.flat();
      },
    };
  }

  rest(conversationId: string): void {
    for (const source of this.#sources) source.rest?.(conversationId);
  }

  drop(conversationId: string): void {
    for (const source of this.#sources) source.drop?.(conversationId);
  }

  leave(sandboxIds: ReadonlySet<string>): void {
    for (const source of this.#sources) source.leave?.(sandboxIds);
  }

  close(): void {
    for (const source of this.#sources) source.close?.();
  }
}

function uniqueByName(tools: readonly Tool[]): readonly Tool[] {
  const names = new Set<string>();
  return tools.filter(({ name }) => !names.has(name) && names.add(name));
}
