import type { Tool } from "@sandpiper/agent/tools/tool";
import type { ConversationRow } from "../../store/conversation-store.ts";

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

/** Where tools of a conversation come from. Of two tools with one name, that of the earlier source counts. */
export interface ToolSource {
  /** Those of this moment, in the order in which the model reads them. Cheap: it is asked at each step. */
  tools(row: Row): readonly Tool[];
  /**
   * Makes the tools ready for a run, in a bounded time; what goes wrong throws only when the signal aborts. Gives sentences that the model and the user should
   * read, each once in a conversation.
   */
  prepare?(row: Row, signal: AbortSignal): Promise<readonly string[]>;
  /** The conversation is at rest, and nobody knows for how long. */
  rest?(conversationId: string): void;
  /** The conversation is gone, or the server ends. */
  drop?(conversationId: string): void;
  /** The server ends. */
  close?(): void;
}

/** The tools of one run. */
export interface Toolset {
  readonly tools: readonly Tool[];
  prepare(signal: AbortSignal): Promise<readonly string[]>;
}

/** Changes the tools of every conversation, such as for a replay. */
export type AdaptTools = (tools: readonly Tool[]) => readonly Tool[];

/** The tools of conversations, put together from their sources. */
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
        return adapt(
          sources.length === 1
            ? sources[0]!.tools(row)
            : uniqueByName(sources.flatMap((source) => source.tools(row))),
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

  close(): void {
    for (const source of this.#sources) source.close?.();
  }
}

function uniqueByName(tools: readonly Tool[]): readonly Tool[] {
  const names = new Set<string>();
  return tools.filter(({ name }) => !names.has(name) && names.add(name));
}
