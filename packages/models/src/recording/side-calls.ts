import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { Model } from "../model.ts";
import type { ModelCall } from "./model-call.ts";
import { CallRecorder } from "./recorder.ts";

/** The part of the event log that stores calls. */
export interface CallLog {
  append(
    conversationId: string,
    records: readonly [],
    options: { calls: readonly ModelCall[] },
  ): Promise<unknown>;
  lastSeq(conversationId: string): Promise<number>;
}

/**
 * Wraps a model for side calls, such as for a title, that leave no event: their records are stored
 * separately. `partial`: only the last message of a prompt with the whole history is stored.
 */
export function recordSideCalls(
  { events, scheduler }: { events: CallLog; scheduler: TurnScheduler },
  { id, usageId, partial = false }: { id: string; usageId: string; partial?: boolean },
  model: Model,
): Model {
  return {
    name: model.name,
    contextWindow: model.contextWindow,
    async complete(request) {
      const seq = await events.lastSeq(id);
      const recorder = new CallRecorder({ seq: () => seq, lastTools: undefined, scheduler });
      try {
        return await recorder.sideCall(model, usageId).complete(request);
      } finally {
        const calls = recorder
          .take()
          .map((call) => (partial ? { ...call, partial, prompt: lastOf(call.prompt) } : call));
        // The answer matters more than its record, and the conversation may be deleted.
        await events.append(id, [], { calls }).catch(() => {});
      }
    },
  };
}

type OwnPrompt = NonNullable<ReturnType<CallRecorder["take"]>[number]["prompt"]>;

function lastOf(prompt: OwnPrompt | undefined): OwnPrompt {
  return { system: [], messages: prompt?.messages.slice(-1) ?? [], tools: [] };
}
