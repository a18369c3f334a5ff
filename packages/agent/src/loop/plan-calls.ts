import type { ModelResponse } from "@sandpiper/models/model";
import type { ActionEvent } from "@sandpiper/wire";
import { type MessageToolCall, newId, textContent } from "@sandpiper/wire";
import { type Analyzer, assess } from "../risk/analyzer.ts";
import { resolveToolCall } from "../tools/call.ts";
import type { Tool } from "../tools/tool.ts";

/** A tool call as an event, with an error when it cannot run. */
export type PlannedCall = { event: ActionEvent; error?: string };

/** The model must know why its arguments were cut, or it repeats them. */
const wasCut =
  " Your answer reached the limit of its length and ended there: write less at once, in several calls.";

/**
 * Turns tool calls into action events with a risk. Drops calls after finish (agent-behaviour.md
 * section 2 point 6). Never throws.
 */
export async function planCalls(
  response: ModelResponse,
  { tools, analyzer }: { tools: readonly Tool[]; analyzer: Analyzer | undefined },
): Promise<PlannedCall[]> {
  const calls: PlannedCall[] = [];
  for (const [position, toolCall] of assignCallIds(response.toolCalls).entries()) {
    const resolved = resolveToolCall(toolCall, tools);
    const usable = "action" in resolved;
    const first = calls.length === 0;
    const thought = response.reasoningItems?.findLast(({ callsBefore }) => callsBefore === position);
    const risk = usable
      ? await assess(analyzer, {
          tool: resolved.tool,
          action: resolved.action,
          claimed: resolved.securityRisk,
        })
      : "UNKNOWN";
    const event = {
      kind: "ActionEvent",
      id: newId(),
      source: "agent",
      thought: first && response.text.trim() ? [textContent(response.text)] : [],
      ...(first && response.reasoning ? { reasoning_content: response.reasoning } : {}),
      thinking_blocks: first ? response.thinkingBlocks : [],
      ...(thought && { responses_reasoning_item: thought.item }),
      ...(usable ? { action: resolved.action } : {}),
      tool_name: usable ? resolved.tool.name : toolCall.name || "unknown",
      tool_call_id: toolCall.id,
      tool_call: toolCall,
      llm_response_id: response.id,
      security_risk: risk,
      ...(usable && resolved.summary ? { summary: resolved.summary } : {}),
    } as ActionEvent;
    const isCut = response.finishReason === "length";
    calls.push(usable ? { event } : { event, error: isCut ? resolved.error + wasCut : resolved.error });
    if (usable && resolved.tool.role === "finish") break;
  }
  return calls;
}

/** Gives each call a unique id: results are matched by id, and providers may repeat or omit ids. */
export function assignCallIds(calls: readonly MessageToolCall[]): MessageToolCall[] {
  const ids = new Set<string>();
  return calls.map((call) => {
    const id = call.id && !ids.has(call.id) ? call.id : `call_${newId()}`;
    ids.add(id);
    return id === call.id ? call : { ...call, id };
  });
}
