import { PlatformError } from "@sandpiper/core/errors";
import { openAiFailure } from "../../server/errors.ts";
import type { Turn } from "./turn.ts";

/** How long a stream is silent at most, ms. */
const beatMs = 15_000;

/** What every chunk of one completion says. */
export interface ChunkHead {
  id: string;
  created: number;
  model: string;
}

/** A turn as server-sent events of `chat.completion.chunk`, with a comment where nothing comes for a while. A turn that fails ends in an error. */
export async function* chunkStream(
  turn: Turn,
  head: ChunkHead,
  includeUsage: boolean,
): AsyncGenerator<string> {
  const chunk = (delta: object, finish_reason: "stop" | null = null) =>
    line({
      ...head,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta, finish_reason }],
      ...(includeUsage && { usage: null }),
    });
  yield chunk({ role: "assistant", content: "" });
  for await (const piece of turn.pieces(beatMs)) {
    if (!piece) yield ": the agent works\n\n";
    if (piece?.reasoning) yield chunk({ reasoning_content: piece.reasoning });
    if (piece?.content) yield chunk({ content: piece.content });
  }
  try {
    const { usage } = await turn.answer();
    yield chunk({}, "stop");
    if (includeUsage) yield line({ ...head, object: "chat.completion.chunk", choices: [], usage });
    yield "data: [DONE]\n\n";
  } catch (error) {
    if (!(error instanceof PlatformError)) throw error;
    yield line(openAiFailure({ status: error.status, text: error.message, code: error.code }));
  }
}

function line(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}
