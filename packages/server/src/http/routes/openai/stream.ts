import { PlatformError } from "@sandpiper/core/errors";
import { openAiFailure } from "../../server/errors.ts";
import type { Turn } from "./turn.ts";

/** Maximum silence of a stream, ms. */
const beatMs = 15_000;

/** The common fields of a completion's chunks. */
export interface ChunkHead {
  id: string;
  created: number;
  model: string;
}

/**
 * Streams a turn as server-sent events of `chat.completion.chunk`, with comments during silence. A
 * failed turn ends in an error.
 */
export async function* streamChunks(
  turn: Turn,
  head: ChunkHead,
  includeUsage: boolean,
): AsyncGenerator<string> {
  const chunk = (delta: object, finish_reason: "stop" | null = null) =>
    toLine({
      ...head,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta, finish_reason }],
      ...(includeUsage && { usage: null }),
    });
  yield chunk({ role: "assistant", content: "" });
  for await (const piece of turn.deltas(beatMs)) {
    if (!piece) yield ": the agent works\n\n";
    if (piece?.reasoning) yield chunk({ reasoning_content: piece.reasoning });
    if (piece?.content) yield chunk({ content: piece.content });
  }
  try {
    const { usage } = await turn.answer();
    yield chunk({}, "stop");
    if (includeUsage) yield toLine({ ...head, object: "chat.completion.chunk", choices: [], usage });
    yield "data: [DONE]\n\n";
  } catch (error) {
    if (!(error instanceof PlatformError)) throw error;
    yield toLine(openAiFailure({ status: error.status, text: error.message, code: error.code }));
  }
}

function toLine(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}
