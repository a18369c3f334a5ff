import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { Model, ModelResponse, RetryNotice } from "@sandpiper/models/model";
import type { ConfirmationPolicy, Stats } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import type { View } from "../prompt/view.ts";
import type { Analyzer } from "../risk/analyzer.ts";
import { modelTools } from "../tools/call.ts";
import { type ActContext, act, toolError } from "./acting.ts";
import { needsConfirmation } from "./confirmation.ts";
import type { NewRecord } from "./log-record.ts";
import { planCalls } from "./plan-calls.ts";
import { addUsage, listed, nudge, stateRecord } from "./records.ts";
import { transition } from "./status.ts";

/** Input of a step, which only changes the log behind `append`. */
export interface StepContext extends ActContext {
  model: Model;
  view: View;
  policy: ConfirmationPolicy;
  /** Without an analyzer, the risk is UNKNOWN (events.md section 3). */
  analyzer: Analyzer | undefined;
  /** Metrics before this step. */
  stats: Stats;
  /** USD, shown in the metrics. */
  budget: number | null;
  onDelta(delta: { content?: string; reasoning?: string }): void;
  onRetry(notice: RetryNotice): void;
  scheduler: TurnScheduler;
}

/**
 * One step: call the model, append its decisions, act, append results (agent-behaviour.md section
 * 2). Actions are logged before they run. Throws what the model call throws; tool failures become
 * events.
 */
export async function step(context: StepContext): Promise<void> {
  const response = await context.model.complete({
    system: context.view.system,
    messages: context.view.startCall(),
    tools: modelTools(context.tools),
    signal: context.toolContext.signal,
    cacheKey: context.toolContext.conversationId,
    onDelta: context.onDelta,
    onRetry: context.onRetry,
  });
  // Hundreds of answers may arrive at once.
  await context.scheduler.nextTurn("steps");
  const stats = stateRecord(
    "stats",
    addUsage(context.stats, "agent", context.model.name, response, context.budget),
  );
  if (response.toolCalls.length === 0) return answer(context, response, stats);

  const calls = await planCalls(response, context);
  const wait = needsConfirmation(
    context.policy,
    calls.map((call) => call.event),
  );
  await context.append([
    ...calls.map((call) => listed(call.event)),
    stats,
    // An invalid call gets its result at once, or a crash would make its outcome look unknown.
    ...calls.flatMap(({ event, error }) => (error ? [toolError(event, context.mask.text(error))] : [])),
    ...(wait ? transition("running", "awaitApproval") : []),
  ]);
  if (wait) return;
  await act(
    calls.flatMap(({ event, error }) => (error ? [] : [event])),
    context,
  );
}

/** An answer without tool calls ends the turn; an empty one is asked to go on. */
async function answer(context: StepContext, response: ModelResponse, stats: NewRecord): Promise<void> {
  const said = response.text.trim() !== "";
  const thought = response.reasoningItems?.at(-1);
  const message = listed({
    kind: "MessageEvent",
    source: "agent",
    llm_message: {
      role: "assistant",
      content: said ? [textContent(response.text)] : [],
      ...(response.reasoning ? { reasoning_content: response.reasoning } : {}),
      thinking_blocks: response.thinkingBlocks,
      ...(thought && { responses_reasoning_item: thought.item }),
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
  if (response.problem) {
    await context.append([message, stats, nudge(response.problem)]);
    return;
  }
  const end = context.hasUnseenMessage() ? [] : transition("running", "finish");
  await context.append([message, stats, ...end]);
}
