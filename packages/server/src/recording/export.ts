import { Readable } from "node:stream";
import { maskDeep, type OutputMask } from "@sandpiper/agent/masking/output-mask";
import { OutputMasks, type OutputMasksDeps } from "../conversations/agent/output-masks.ts";
import type { ConversationRow } from "../store/conversation-store.ts";
import type { Store } from "../store/store.ts";
import { createRecordingHeader, type RecordingHeaderDeps } from "./header.ts";
import { generateLines } from "./lines.ts";

export type RecordingsDeps = RecordingHeaderDeps &
  Pick<OutputMasksDeps, "mask" | "secrets" | "settings"> & { store: Store };

/** Exports conversations with their model traffic. */
export class Recordings {
  readonly #deps: RecordingsDeps;
  readonly #masks: OutputMasks;

  constructor(deps: RecordingsDeps) {
    this.#deps = deps;
    const own = async ({ id, config }: Pick<ConversationRow, "id" | "config">) =>
      config.ownAgent ? deps.store.agents.get(id) : undefined;
    this.#masks = new OutputMasks({ ...deps, agents: { clientAgent: own } });
  }

  /**
   * Streams a conversation as a recording (docs/everyday/command-line.md), JSON lines with the
   * secrets of its user and sandbox masked. If the conversation is deleted meanwhile, the
   * last line is missing.
   */
  async export(row: ConversationRow): Promise<Readable> {
    const mask = await this.#masks.forConversation(row);
    return Readable.from(this.#texts(row, mask), { objectMode: false });
  }

  async *#texts(row: ConversationRow, mask: OutputMask): AsyncGenerator<string> {
    const header = await createRecordingHeader(this.#deps, row);
    for await (const line of generateLines(this.#deps.store, row.id, header)) {
      // The kind of a line is not a secret.
      yield `${JSON.stringify({ ...maskDeep(line, mask), line: line.line })}\n`;
    }
  }
}
