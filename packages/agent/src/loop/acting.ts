import { errorText, PlatformError } from "@sandpiper/core/errors";
import { Semaphore } from "@sandpiper/core/scheduling/semaphore";
import { CommandInterrupted } from "@sandpiper/sandbox/shell/terminal/command-interrupted";
import type { Action, ActionEvent, Observation, TextContent } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { type Hooks, hookContext } from "../hooks/hooks.ts";
import { maskObservation, type OutputMask } from "../masking/output-mask.ts";
import type { Tool, ToolContext, ToolProgress } from "../tools/tool.ts";
import type { LogRecord, NewRecord } from "./log-record.ts";
import { type CallProgress, ProgressReporter } from "./progress-reporter.ts";
import { listed } from "./records.ts";
import { transition } from "./status.ts";

export interface ActContext {
  tools: readonly Tool[];
  hooks: Hooks;
  mask: OutputMask;
  /** Concurrent calls, at least 1. */
  concurrency: number;
  toolContext: Omit<ToolContext, "actionId" | "described" | "isRepeated">;
  /** Ids of the actions that a run of an earlier server may have begun. */
  repeated?: ReadonlySet<string>;
  append(records: NewRecord[]): Promise<LogRecord[]>;
  /** Called before a tool runs. */
  onStart(actionId: string): void;
  /** Whether the turn must go on: a user message arrived since the model call, or hooks decide. */
  hasUnseenMessage(): boolean;
  /** Receives the masked progress of a running call, at a limited rate. */
  onProgress?(event: ActionEvent, progress: CallProgress): void;
  /** Project rules for the files that an action touched; added to its result. */
  rulesFor(action: Action): Promise<TextContent[]>;
}

/** Result of an action; after a fatal error the run ends. */
type Outcome = { records: NewRecord[]; fatal?: unknown };

/**
 * Runs logged actions and appends their results in order. Calls that share a resource run one after
 * the other, others concurrently; finish waits for all (agent-behaviour.md section 2 point 8).
 * Throws when the run is aborted or the sandbox was deleted (SandboxNotFound).
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
  // Nothing may run on after the run ended, and completed results must be logged.
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
  context.onStart(event.id);
  const reporter = new ProgressReporter(mask, (progress) => context.onProgress?.(event, progress));
  const onProgress = (progress: ToolProgress) => reporter.add(progress);
  let observation: Observation;
  try {
    observation = maskObservation(
      await tool.run(event.action, {
        ...toolContext,
        ...{ actionId: event.id, described: event.summary, onProgress },
        isRepeated: context.repeated?.has(event.id) === true,
      }),
      mask,
    );
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof CommandInterrupted)
      return { records: [interruptedResult(event, { begun: true, output: mask.text(error.output.text) })] };
    const records = [toolError(event, mask.text(`${tool.name} failed: ${errorText(error)}`))];
    // A deleted sandbox does not come back: further model calls would be wasted.
    return error instanceof PlatformError && error.code === "SandboxNotFound"
      ? { records, fatal: error }
      : { records };
  } finally {
    reporter.close();
  }
  const after = await hooks.afterTool(event, observation);
  const advices = [advice, after.context, after.blocked]
    .filter((text) => text !== undefined)
    .map(hookContext);
  const extended = [
    ...advices.map(textContent),
    ...(observation.is_error ? [] : await context.rulesFor(event.action)),
  ];
  const result = listed({
    kind: "ObservationEvent",
    source: "environment",
    tool_name: tool.name,
    tool_call_id: event.tool_call_id,
    observation,
    action_id: event.id,
    ...(extended.length > 0 && { extended_content: extended }),
  });
  const done = tool.role === "finish" && !context.hasUnseenMessage();
  return { records: done ? [result, ...transition("running", "finish")] : [result] };
}

function toolOf(event: ActionEvent, { tools }: ActContext): Tool | undefined {
  return tools.find(({ name }) => name === event.tool_name);
}

const interrupted =
  "This tool call was interrupted and its outcome is unknown: it may have run fully, partly or not at all. Check the state before you repeat it.";
const outputFollows = "\n[Its output until then follows.]\n";
const notStarted = "The run was interrupted before this tool call began: nothing of it was done.";

/** Result of an interrupted call, or of one that never began (agent-behaviour.md section 1). */
export function interruptedResult(
  event: ActionEvent,
  { begun, output = "", loss }: { begun: boolean; output?: string; loss?: string | undefined },
): NewRecord {
  const shown = loss !== undefined ? ` ${loss}` : output && `${outputFollows}${output}`;
  return toolError(event, begun ? `${interrupted}${shown}` : notStarted);
}

export function isInterruption(error: string | undefined): boolean {
  return error === notStarted || error?.startsWith(interrupted) === true;
}

/** Result of a call without an observation. */
export function toolError(event: Pick<ActionEvent, "tool_name" | "tool_call_id">, error: string): NewRecord {
  const { tool_name, tool_call_id } = event;
  return listed({ kind: "AgentErrorEvent", source: "agent", tool_name, tool_call_id, error });
}

/** Result of a call that a hook or the user refused. */
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
