import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import { View } from "@sandpiper/agent/prompt/view";
import { yieldingIterate } from "@sandpiper/core/scheduling/yielding";
import type { ModelMessage, ModelTool } from "@sandpiper/models/model";
import { PromptDigester } from "@sandpiper/models/recording/digest";
import type { Event } from "@sandpiper/wire";
import type { Span } from "../store/branch.ts";
import type { StoredModelCall } from "../store/model-calls.ts";

/** A prompt as a model was sent it; `exact` tells that its digests are those of the call. */
export interface ReconstructedPrompt {
  system: string[];
  messages: ModelMessage[];
  tools: ModelTool[];
  exact: boolean;
}

type Listed = { seq: number; event: Event };

/**
 * Makes the prompts of a conversation's calls again out of its log, which is given to it record by
 * record. A run reads messages that came during a call after its results; the run that comes next
 * reads them where they stand. So where the view that goes on does not give what the model was
 * sent, one that begins anew is tried.
 */
export class PromptReconstructor {
  /** Spans of listed events that lead to one, by its id; null: the beginning. */
  readonly #pathTo: (eventId: string | null) => readonly Span[];
  readonly #listed: Listed[] = [];
  #branch: Listed[] = [];
  #view = new View();
  #digester = new PromptDigester();
  #seq = 0;
  #tools: ModelTool[] = [];
  /**
   * A view that began anew did not help: this program makes other prompts out of events than the
   * one that called.
   */
  #isOther = false;

  constructor(pathTo: (eventId: string | null) => readonly Span[]) {
    this.#pathTo = pathTo;
  }

  add({ seq, listed, event }: LogRecord): void {
    this.#seq = seq;
    if (event.kind === "ConversationStateUpdateEvent" && event.key === "leaf_event_id") {
      const spans = this.#pathTo(event.value as string | null);
      this.#branch = spans.flatMap(({ first, last }) => this.#listed.slice(first - 1, last));
      this.#view = createView(this.#branch);
    }
    if (!listed) return;
    this.#listed.push({ seq, event });
    this.#branch.push({ seq, event });
    this.#view.add(event);
  }

  /** The prompt of a call, which has to be asked for before a record is given that came of it. */
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
    const { system, messages, tools } = this.#digester.of(prompt);
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
