import { errorText, PlatformError } from "@sandpiper/core/errors";
import { Semaphore } from "@sandpiper/core/scheduling/semaphore";
import type { Action, ActionEvent, Observation, TextContent } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { type Hooks, hookContext } from "../hooks/hooks.ts";
import { maskObservation, type OutputMask } from "../masking/output-mask.ts";
import type { Tool, ToolContext, ToolProgress } from "../tools/tool.ts";
import type { LogRecord, NewRecord } from "./log-record.ts";
import { ProgressTeller } from "./progress.ts";
import { listed } from "./records.ts";
import { transition } from "./status.ts";

/** What running actions takes. */
export interface ActContext {
  tools: readonly Tool[];
  hooks: Hooks;
  mask: OutputMask;
  /** Calls that may run at the same time, from 1. */
  concurrency: number;
  toolContext: Omit<ToolContext, "actionId">;
  append(records: NewRecord[]): Promise<LogRecord[]>;
  /** Told before a tool runs, with the id of its action. */
  begins(actionId: string): void;
  /** True when the turn must not end now: a user message has come since the model was called, or hooks are asked first. */
  hasUnseenMessage(): boolean;
  /** Is told now and then how far a call is that takes its time, without secrets. */
  onProgress?(event: ActionEvent, progress: ToolProgress): void;
  /** Rules of the project for the files that an action has touched: the model reads them with its result. */
  rulesFor(action: Action): TextContent[];
}

/** What came of an action, and an error after which nothing else makes sense. */
type Outcome = { records: NewRecord[]; fatal?: unknown };

/**
 * Runs actions that are in the log and appends their results in the same order. Calls that hold the same resource run one after the other, others side by
 * side up to the limit; a finish waits for all before it (agent-behaviour.md section 2 point 8). Throws only when the run was aborted, and
 * SandboxNotFound when the sandbox was deleted.
 */
export async function act(events: readonly ActionEvent[], context: ActContext): Promise<void> {
  const outcomes: Promise<Outcome>[] = [];
  const holders = new Map<string, Promise<unknown>>();
  const permits = new Semaphore(context.concurrency);
  let appended: Promise<void> = Promise.resolve();
  let inLog = 0;
  for (const event of events) {
    const tool = toolOf(event, context);
    const keys =
      tool && event.action
        ? (tool.resources?.(event.action, context.toolContext.workingDir) ?? [tool.name])
        : [];
    const alone = tool?.role === "finish" || context.concurrency === 1;
    const before = alone ? [appended] : keys.flatMap((key) => holders.get(key) ?? []);
    const outcome = Promise.all(before).then(() => permits.run(() => actOnce(event, context)));
    outcomes.push(outcome);
    const over = outcome.catch(() => {});
    for (const key of keys) holders.set(key, over);
    appended = appended.then(async () => {
      const { records, fatal } = await outcome;
      await context.append(records);
      inLog++;
      if (fatal !== undefined) throw fatal;
    });
    appended.catch(() => {});
  }
  // Nothing runs on behind the back of a run that has ended, and what did end before it was cut off is told.
  const settled = await Promise.allSettled(outcomes);
  try {
    await appended;
  } catch (error) {
    const rest = settled.slice(inLog).flatMap((one) => (one.status === "fulfilled" ? one.value.records : []));
    if (rest.length > 0) await context.append(rest).catch(() => {});
    throw error;
  }
}

async function actOnce(event: ActionEvent, context: ActContext): Promise<Outcome> {
  const tool = toolOf(event, context);
  if (!tool || !event.action)
    return {
      records: [toolError(event, `The tool ${event.tool_name} is not available in this conversation.`)],
    };
  const { mask, hooks, toolContext } = context;
  const { signal } = toolContext;
  signal.throwIfAborted();
  const { blocked, context: advice } = await hooks.beforeTool(event);
  if (blocked !== undefined) return { records: [rejection(event, "hook", blocked)] };
  signal.throwIfAborted();
  context.begins(event.id);
  const teller = new ProgressTeller(({ message, ...progress }) =>
    context.onProgress?.(
      event,
      message === undefined ? progress : { ...progress, message: mask.text(message) },
    ),
  );
  const onProgress = (progress: ToolProgress) => teller.add(progress);
  let observation: Observation;
  try {
    observation = maskObservation(
      await tool.run(event.action, { ...toolContext, actionId: event.id, onProgress }),
      mask,
    );
  } catch (error) {
    signal.throwIfAborted();
    const records = [toolError(event, mask.text(`${tool.name} failed: ${errorText(error)}`))];
    // A deleted sandbox does not come back: whatever the model tried next would be paid for and fail too.
    return error instanceof PlatformError && error.code === "SandboxNotFound"
      ? { records, fatal: error }
      : { records };
  } finally {
    teller.close();
  }
  const after = await hooks.afterTool(event, observation);
  const extended = [advice, after.context, after.blocked]
    .filter((text) => text !== undefined)
    .map(hookContext);
  const told = [
    ...extended.map(textContent),
    ...(observation.is_error ? [] : context.rulesFor(event.action)),
  ];
  const result = listed({
    kind: "ObservationEvent",
    source: "environment",
    tool_name: tool.name,
    tool_call_id: event.tool_call_id,
    observation,
    action_id: event.id,
    ...(told.length > 0 && { extended_content: told }),
  });
  const done = tool.role === "finish" && !context.hasUnseenMessage();
  return { records: done ? [result, ...transition("running", "finish")] : [result] };
}

function toolOf(event: ActionEvent, { tools }: ActContext): Tool | undefined {
  return tools.find(({ name }) => name === event.tool_name);
}

const interrupted =
  "This tool call was interrupted and its outcome is unknown: it may have run fully, partly or not at all. Check the state before you repeat it.";
const neverBegun = "The run was interrupted before this tool call began: nothing of it was done.";

/** The result of a call that was cut off, or that was never begun (agent-behaviour.md section 1). */
export function cutOff(event: ActionEvent, { begun }: { begun: boolean }): NewRecord {
  return toolError(event, begun ? interrupted : neverBegun);
}

/** Whether a call's error says that it was cut off. */
export function isCutOff(error: string | undefined): boolean {
  return error === interrupted || error === neverBegun;
}

/** The result of a call that produced no observation. */
export function toolError(event: Pick<ActionEvent, "tool_name" | "tool_call_id">, error: string): NewRecord {
  const { tool_name, tool_call_id } = event;
  return listed({ kind: "AgentErrorEvent", source: "agent", tool_name, tool_call_id, error });
}

/** The result of a call that a hook, or the user, did not let run. */
export function rejection(event: ActionEvent, source: "hook" | "user", reason: string): NewRecord {
  const { id: action_id, tool_name, tool_call_id } = event;
  return listed({
    kind: "UserRejectObservation",
    source: "environment",
    tool_name,
    tool_call_id,
    action_id,
    rejection_reason: reason,
    rejection_source: source,
  });
}
