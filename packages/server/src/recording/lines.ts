import { digestJson } from "@sandpiper/models/recording/digest";
import type { RecordedCall, RecordingHeader, RecordingLine } from "@sandpiper/wire";
import { isoTime } from "@sandpiper/wire";
import type { StoredModelCall } from "../store/model-calls.ts";
import type { Store } from "../store/store.ts";
import { PromptReconstructor, type ReconstructedPrompt } from "./prompt-reconstructor.ts";

/** Maximum records and model calls in memory, in addition to the view. */
const pageSize = 100;

/**
 * Generates the lines of a recording: events in order, each call before its events, and each part
 * of a prompt once before its first call. Later records are not included. `id` is dashed.
 */
export async function* generateLines(
  { events, modelCalls }: Pick<Store, "events" | "modelCalls">,
  id: string,
  header: RecordingHeader,
): AsyncGenerator<RecordingLine> {
  const folder = new PromptReconstructor(async (eventId) => (await events.pathTo(id, eventId))?.spans ?? []);
  const parts = new PromptParts();
  const last = await events.lastSeq(id);
  const calls = listCalls(modelCalls, id, last);
  const counts = { events: 0, calls: 0 };
  let next = await calls.next();
  const until = async function* (seq: number): AsyncGenerator<RecordingLine> {
    for (; !next.done && next.value.atSeq <= seq; next = await calls.next()) {
      counts.calls++;
      yield* parts.lines(next.value, await folder.prompt(next.value));
    }
  };
  yield header;
  yield* until(0);
  for (let seq = 0; seq < last; ) {
    const records = await events.read(id, seq, Math.min(pageSize, last - seq));
    // The conversation was deleted: without its last line the recording counts as cut off.
    if (records.length === 0) return;
    for (const record of records) {
      await folder.add(record);
      counts.events++;
      yield { line: "event", seq: record.seq, listed: record.listed, event: record.event };
      yield* until(record.seq);
      seq = record.seq;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  yield { line: "end", ...counts };
}

/** Model calls whose results are in the log up to a record. */
async function* listCalls(
  modelCalls: Store["modelCalls"],
  id: string,
  lastSeq: number,
): AsyncGenerator<StoredModelCall> {
  for (let after = 0; ; ) {
    const page = await modelCalls.listByConversation(id, after, pageSize);
    if (page.length === 0) return;
    for (const call of page) if (call.storedSeq <= lastSeq) yield call;
    after = page.at(-1)!.number;
  }
}

/** Numbers the parts of prompts, so that each part is written once. */
class PromptParts {
  readonly #known = {
    system: new Map<string, number>(),
    tools: new Map<string, number>(),
    message: new Map<string, number>(),
  };
  readonly #messages = new WeakMap<object, number>();

  *lines(
    call: StoredModelCall,
    { system, messages, tools, exact }: ReconstructedPrompt,
  ): Generator<RecordingLine> {
    const systemNumber = this.#number("system", system);
    if (systemNumber.isNew) yield { line: "system", number: systemNumber.number, blocks: system };
    const toolsNumber = this.#number("tools", tools);
    if (toolsNumber.isNew) yield { line: "tools", number: toolsNumber.number, tools };
    const ranges: [number, number][] = [];
    for (const message of messages) {
      let number = this.#messages.get(message);
      if (number === undefined) {
        const found = this.#number("message", message);
        if (found.isNew) yield { line: "message", number: found.number, message };
        number = found.number;
        this.#messages.set(message, number);
      }
      const range = ranges.at(-1);
      if (range && range[0] + range[1] === number) range[1]++;
      else ranges.push([number, 1]);
    }
    yield callLine(call, { system: systemNumber.number, tools: toolsNumber.number, messages: ranges, exact });
  }

  #number(kind: "system" | "tools" | "message", value: unknown): { number: number; isNew: boolean } {
    const known = this.#known[kind];
    const digest = digestJson(value);
    const number = known.get(digest);
    if (number !== undefined) return { number, isNew: false };
    known.set(digest, known.size);
    return { number: known.size - 1, isNew: true };
  }
}

function callLine(
  { usageId, model, atSeq, storedSeq, startedAt, latency, response, failure }: StoredModelCall,
  prompt: Pick<RecordedCall, "system" | "tools" | "messages" | "exact">,
): RecordedCall {
  return {
    ...{ line: "call", usage_id: usageId, model, at_seq: atSeq, stored_seq: storedSeq, ...prompt },
    ...{ started_at: isoTime(startedAt), latency_ms: latency },
    ...(response && { response }),
    ...(failure && { failure }),
  };
}
