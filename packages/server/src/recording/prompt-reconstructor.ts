import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import { View } from "@sandpiper/agent/prompt/view";
import { yieldingIterate } from "@sandpiper/core/scheduling/yielding";
import type { ModelMessage, ModelTool } from "@sandpiper/models/model";
import { PromptDigester } from "@sandpiper/models/recording/digest";
import type { Event } from "@sandpiper/wire";
import type { Span } from "../store/branch.ts";
import type { StoredModelCall } from "../store/model-calls.ts";

/** A reconstructed prompt; `exact` means that its digests equal those of the call. */
export interface ReconstructedPrompt {
  system: string[];
  messages: ModelMessage[];
  tools: ModelTool[];
  exact: boolean;
}

type Listed = { seq: number; event: Event };

/**
 * Reconstructs the prompts of model calls from the log, record by record. A run reads messages that
 * came during a call after its results, the next run reads them in log order. So if the running
 * view does not match, a new view is tried.
 */
export class PromptReconstructor {
  /** The path of an event; null: the beginning. */
  readonly #pathTo: (eventId: string | null) => Promise<readonly Span[]>;
  readonly #listed: Listed[] = [];
  #branch: Listed[] = [];
  #view = new View();
  #digester = new PromptDigester();
  #seq = 0;
  #tools: ModelTool[] = [];
  /** A new view did not match: another version of the program made the prompts. */
  #isOther = false;

  constructor(pathTo: (eventId: string | null) => Promise<readonly Span[]>) {
    this.#pathTo = pathTo;
  }

  /** Adds the next record; call it again when it has resolved. */
  async add({ seq, listed, event }: LogRecord): Promise<void> {
    this.#seq = seq;
    if (event.kind === "ConversationStateUpdateEvent" && event.key === "leaf_event_id") {
      const spans = await this.#pathTo(event.value as string | null);
      this.#branch = spans.flatMap(({ first, last }) => this.#listed.slice(first - 1, last));
      this.#view = createView(this.#branch);
    }
    if (!listed) return;
    this.#listed.push({ seq, event });
    this.#branch.push({ seq, event });
    this.#view.add(event);
  }

  /** The prompt of a call. Must be called before the records of the call are added. */
  async prompt(call: StoredModelCall): Promise<ReconstructedPrompt> {
    if (call.prompt) return { ...call.prompt, exact: !call.partial };
    this.#tools = call.tools ?? this.#tools;
    if (call.atSeq === this.#seq) {
      const prompt = this.#reconstruct(this.#view, call);
      if (prompt.exact || this.#isOther) return prompt;
    }
    const view = new View();
    for await (const { event } of yieldingIterate(this.#branch.filter(({ seq }) => seq <= call.atSeq)))
      view.add(event);
    const prompt = this.#reconstruct(view, call);
    for (const { seq, event } of this.#branch) if (seq > call.atSeq) view.add(event);
    this.#view = view;
    this.#isOther ||= !prompt.exact;
    return prompt;
  }

  #reconstruct(view: View, { digests }: StoredModelCall): ReconstructedPrompt {
    const prompt = { system: view.system, messages: view.startCall(), tools: this.#tools };
    const { system, messages, tools } = this.#digester.digest(prompt);
    return {
      ...prompt,
      exact: system === digests?.system && messages === digests.messages && tools === digests.tools,
    };
  }
}

function createView(events: readonly Listed[]): View {
  const view = new View();
  for (const { event } of events) view.add(event);
  return view;
}
