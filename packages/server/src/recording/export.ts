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
    const own = ({ id, config }: Pick<ConversationRow, "id" | "config">) =>
      config.ownAgent ? deps.store.agents.get(id) : undefined;
    this.#masks = new OutputMasks({ ...deps, agents: { clientAgent: own } });
  }

  /**
   * A conversation as a recording (docs/command-line.md): lines of JSON, made while they are taken.
   * The secrets of its user and its sandbox are masked in all of it, those too that a model wrote.
   * A conversation that is deleted meanwhile ends without the last line.
   */
  export(row: ConversationRow): Readable {
    return Readable.from(this.#texts(row, this.#masks.forConversation(row)), { objectMode: false });
  }

  async *#texts(row: ConversationRow, mask: OutputMask): AsyncGenerator<string> {
    const header = createRecordingHeader(this.#deps, row);
    for await (const line of generateLines(this.#deps.store, row.id, header)) {
      // What a line is can be no secret.
      yield `${JSON.stringify({ ...maskDeep(line, mask), line: line.line })}\n`;
    }
  }
}
