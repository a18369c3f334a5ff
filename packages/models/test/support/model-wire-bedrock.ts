import { crc32 } from "node:zlib";
import type { Answer } from "./model-answer.ts";
import {
  argumentsText,
  callId,
  empty,
  partsText,
  pieces,
  type SeenMessage,
  usageOf,
} from "./model-wire-parts.ts";

/** Amazon Bedrock's Converse, for the scripted model server. */

type Json = any;

export function readBedrock(body: Json) {
  const messages: SeenMessage[] = [];
  for (const { role, content } of body.messages as { role: "user" | "assistant"; content: Json[] }[]) {
    for (const { toolResult } of content.filter((part) => part.toolResult)) {
      const parts = toolResult.content as Json[];
      messages.push({
        ...empty("tool"),
        ...texts(parts),
        toolCallId: toolResult.toolUseId,
        isError: toolResult.status === "error",
      });
    }
    const rest = content.filter((part) => !part.toolResult && !part.cachePoint);
    if (rest.length === 0) continue;
    messages.push({
      ...empty(role),
      ...texts(rest),
      toolCalls: rest.flatMap(({ toolUse: use }) =>
        use ? [{ id: use.toolUseId, name: use.name, arguments: use.input }] : [],
      ),
      thinking: rest.flatMap(({ reasoningContent: thought }) => {
        if (!thought) return [];
        const { text = "", signature } = thought.reasoningText ?? {};
        return [{ text, signature: signature ?? thought.redactedContent }];
      }),
    });
  }
  return {
    system: (body.system ?? []).flatMap((part: Json) => (part.text ? [part.text] : [])).join("\n\n"),
    messages,
    tools: (body.toolConfig?.tools ?? []).flatMap((tool: Json) =>
      tool.toolSpec ? [tool.toolSpec.name] : [],
    ),
  };
}

function texts(parts: Json[]): { text: string; images: number } {
  const typed = parts.map((part) => ("text" in part ? { ...part, type: "text" } : part));
  return { text: partsText(typed), images: parts.filter((part) => part.image).length };
}

export function bedrockEvents(answer: Answer, index: number): Buffer[] {
  const events = [frame("messageStart", { role: "assistant" })];
  let block = 0;
  const addBlock = (start: object | undefined, deltas: object[]) => {
    if (start) events.push(frame("contentBlockStart", { contentBlockIndex: block, start }));
    for (const delta of deltas)
      events.push(frame("contentBlockDelta", { contentBlockIndex: block, delta, p: "abcd" }));
    events.push(frame("contentBlockStop", { contentBlockIndex: block++ }));
  };
  if (answer.thinking) {
    const { text, signature } = answer.thinking;
    const thoughts: object[] = pieces(text, answer.deltaSize).map((text) => ({ reasoningContent: { text } }));
    addBlock(undefined, signature ? [...thoughts, { reasoningContent: { signature } }] : thoughts);
  }
  if (answer.redactedThinking)
    addBlock(undefined, [{ reasoningContent: { redactedContent: answer.redactedThinking } }]);
  const said = answer.refusal ?? answer.text;
  if (said)
    addBlock(
      undefined,
      pieces(said, answer.deltaSize).map((text) => ({ text })),
    );
  answer.toolCalls?.forEach((call, position) => {
    const inputs = pieces(argumentsText(call), answer.deltaSize).map((input) => ({ toolUse: { input } }));
    addBlock({ toolUse: { toolUseId: callId(call, index, position), name: call.name } }, inputs);
  });
  if (answer.streamError) {
    return [
      ...events,
      frame("modelStreamErrorException", { message: answer.streamError.message }, "exception"),
    ];
  }
  const reasons = {
    stop: "end_turn",
    tool_calls: "tool_use",
    length: "max_tokens",
    content_filter: "content_filtered",
  };
  const finish = answer.refusal
    ? "content_filter"
    : (answer.finish ?? (answer.toolCalls?.length ? "tool_calls" : "stop"));
  const usage = usageOf(answer);
  const metadata = {
    usage: {
      inputTokens: usage.prompt - usage.cacheRead - usage.cacheWrite,
      outputTokens: usage.completion,
      totalTokens: usage.prompt + usage.completion,
      cacheReadInputTokens: usage.cacheRead,
      cacheWriteInputTokens: usage.cacheWrite,
    },
    metrics: { latencyMs: 1 },
  };
  return [...events, frame("messageStop", { stopReason: reasons[finish] }), frame("metadata", metadata)];
}

/**
 * One event in AWS's binary form: lengths, a checksum, headers, the payload, and a checksum of it
 * all.
 */
function frame(type: string, payload: object, kind: "event" | "exception" = "event"): Buffer {
  const names = { ":message-type": kind, [`:${kind}-type`]: type, ":content-type": "application/json" };
  const headers = Buffer.concat(
    Object.entries(names).map(([name, value]) =>
      Buffer.concat([
        Buffer.from([name.length]),
        Buffer.from(name),
        Buffer.from([7, 0, value.length]),
        Buffer.from(value),
      ]),
    ),
  );
  const body = Buffer.from(JSON.stringify(payload));
  const head = Buffer.alloc(12);
  head.writeUInt32BE(16 + headers.length + body.length, 0);
  head.writeUInt32BE(headers.length, 4);
  head.writeUInt32BE(crc32(head.subarray(0, 8)), 8);
  const all = Buffer.concat([head, headers, body]);
  const tail = Buffer.alloc(4);
  tail.writeUInt32BE(crc32(all), 0);
  return Buffer.concat([all, tail]);
}
