import type { ActionEvent, ConfirmationPolicy, Stats } from "@sandpiper/wire";
import { newId, textContent } from "@sandpiper/wire";
import { errorText, PlatformError } from "../errors.ts";
import type { Model, ModelResponse, RetryNotice } from "../models/model.ts";
import type { LogRecord, NewRecord } from "../store/event-log.ts";
import { needsConfirmation } from "./confirmation.ts";
import { addUsage, listed, nudge, stateRecord } from "./records.ts";
import type { Tool, ToolContext } from "./tool.ts";
import { modelTools, resolveToolCall } from "./tools/call.ts";
import type { View } from "./view.ts";

/** What one step works with. The log behind `append` is the only thing that a step changes. */
export interface StepContext {
  model: Model;
  tools: readonly Tool[];
  view: View;
  policy: ConfirmationPolicy;
  /** A security analyzer is set that takes the model's own estimate of the risk; without one the events say UNKNOWN (events.md section 3). */
  trustsRisk: boolean;
  /** Metrics before this step. */
  stats: Stats;
  /** USD, shown in the metrics. */
  budget: number | null;
  toolContext: ToolContext;
  append(records: NewRecord[]): Promise<LogRecord[]>;
  onDelta(delta: { content?: string; reasoning?: string }): void;
  onRetry(notice: RetryNotice): void;
  /** True when a user message has come since this step called the model: the turn must not end then. */
  hasUnseenMessage(): boolean;
}

/**
 * One turn of the loop: call the model, append what it decided, act, append what came of it (agent-behaviour.md section 2).
 * Every action is in the log before it runs. Throws what the model call throws; tool failures become events.
 */
export async function step(context: StepContext): Promise<void> {
  const response = await context.model.complete({
    system: context.view.system,
    messages: context.view.startCall(),
    tools: modelTools(context.tools),
    signal: context.toolContext.signal,
    onDelta: context.onDelta,
    onRetry: context.onRetry,
  });
  const stats = stateRecord("stats", addUsage(context.stats, "agent", context.model.name, response, context.budget));
  if (response.toolCalls.length === 0) return answer(context, response, stats);

  const calls = planCalls(response, context);
  const wait = needsConfirmation(
    context.policy,
    calls.map((call) => call.event),
  );
  await context.append([
    ...calls.map((call) => listed(call.event)),
    stats,
    ...(wait ? [stateRecord("execution_status", "waiting_for_confirmation")] : []),
  ]);
  for (const { event, error } of calls) if (error) await context.append([toolError(event, error)]);
  if (wait) return;
  for (const { event, error } of calls) if (!error) await act(event, context);
}

type PlannedCall = { event: ActionEvent; error?: string };

/** Turns the model's tool calls into action events. What follows a finish is dropped. */
function planCalls(response: ModelResponse, { tools, trustsRisk }: StepContext): PlannedCall[] {
  const calls: PlannedCall[] = [];
  const ids = new Set<string>();
  for (const call of response.toolCalls) {
    // Results are matched by call id, so a provider that repeats or omits ids must not confuse them.
    const toolCall = call.id && !ids.has(call.id) ? call : { ...call, id: `call_${newId()}` };
    ids.add(toolCall.id);
    const resolved = resolveToolCall(toolCall, tools);
    const usable = "action" in resolved;
    const first = calls.length === 0;
    const event = {
      kind: "ActionEvent",
      id: newId(),
      source: "agent",
      thought: first && response.text.trim() ? [textContent(response.text)] : [],
      ...(first && response.reasoning ? { reasoning_content: response.reasoning } : {}),
      thinking_blocks: first ? response.thinkingBlocks : [],
      ...(usable ? { action: resolved.action } : {}),
      tool_name: usable ? resolved.tool.name : toolCall.name || "unknown",
      tool_call_id: toolCall.id,
      tool_call: toolCall,
      llm_response_id: response.id,
      security_risk: usable && trustsRisk ? resolved.securityRisk : "UNKNOWN",
      ...(usable && resolved.summary ? { summary: resolved.summary } : {}),
    } as ActionEvent;
    calls.push(usable ? { event } : { event, error: resolved.error });
    if (usable && resolved.tool.name === "finish") break;
  }
  return calls;
}

/** An answer without tool calls ends the turn when it says something, and is asked to go on when it does not. */
async function answer(context: StepContext, response: ModelResponse, stats: NewRecord): Promise<void> {
  const said = response.text.trim() !== "";
  const message = listed({
    kind: "MessageEvent",
    source: "agent",
    llm_message: {
      role: "assistant",
      content: said ? [textContent(response.text)] : [],
      ...(response.reasoning ? { reasoning_content: response.reasoning } : {}),
      thinking_blocks: response.thinkingBlocks,
    },
    llm_response_id: response.id,
    activated_skills: [],
    extended_content: [],
  });
  if (!said) {
    const text =
      response.finishReason === "content-filter"
        ? "Your last answer was withheld by the provider's content filter. Go on in another way, or call finish and say why you cannot."
        : "Your last answer was empty. Use a tool to go on with the task, or call finish when it is done.";
    await context.append([message, stats, nudge(text)]);
    return;
  }
  const end = context.hasUnseenMessage() ? [] : [stateRecord("execution_status", "finished")];
  await context.append([message, stats, ...end]);
}

/** Runs one action and appends its result. Throws only when the run was aborted, and SandboxNotFound when the sandbox was deleted. */
export async function act(event: ActionEvent, context: StepContext): Promise<void> {
  const tool = context.tools.find((candidate) => candidate.name === event.tool_name);
  if (!tool || !event.action) {
    await context.append([toolError(event, `The tool ${event.tool_name} is not available in this conversation.`)]);
    return;
  }
  const { signal } = context.toolContext;
  signal.throwIfAborted();
  let result: NewRecord;
  try {
    const observation = await tool.run(event.action, context.toolContext);
    result = listed({
      kind: "ObservationEvent",
      source: "environment",
      tool_name: tool.name,
      tool_call_id: event.tool_call_id,
      observation,
      action_id: event.id,
    });
  } catch (error) {
    signal.throwIfAborted();
    result = toolError(event, `${tool.name} failed: ${errorText(error)}`);
    // A deleted sandbox does not come back: whatever the model tried next would be paid for and fail too.
    if (error instanceof PlatformError && error.code === "SandboxNotFound") {
      await context.append([result]);
      throw error;
    }
  }
  const done = tool.name === "finish" && !context.hasUnseenMessage();
  await context.append(done ? [result, stateRecord("execution_status", "finished")] : [result]);
}

/** The result of a call that produced no observation. */
export function toolError(event: Pick<ActionEvent, "tool_name" | "tool_call_id">, error: string): NewRecord {
  const { tool_name, tool_call_id } = event;
  return listed({ kind: "AgentErrorEvent", source: "agent", tool_name, tool_call_id, error });
}
