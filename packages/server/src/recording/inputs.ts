import { isInterruption } from "@sandpiper/agent/loop/acting";
import type { Event, RecordedCall } from "@sandpiper/wire";
import { Content, type ExecutionStatus } from "@sandpiper/wire";
import { Type } from "typebox";
import { Check } from "typebox/value";
import type { Recording } from "./read.ts";

/** An input of a recorded conversation that did not come from the agent. */
export type Input =
  | { kind: "message"; content: Content[]; sender?: string; run: boolean }
  | { kind: "run" }
  | { kind: "reject"; reason: string }
  | { kind: "pause" }
  | { kind: "interrupt" }
  | { kind: "condense" };

/** When an input came: while idle, during a model call, or after some of the agent's work. */
export type InputPoint =
  | { kind: "rest"; status: ExecutionStatus }
  | { kind: "call"; usageId: string; index: number }
  | { kind: "work"; actions: number; results: number };

export interface PlacedInput {
  input: Input;
  point: InputPoint;
  seq: number;
  /** Delay after that point, ms; 0 when the agent waits for the input. */
  afterMs: number;
}

/** The ordered inputs of a recording. `stop` says why the rest cannot be replayed. */
export interface Inputs {
  inputs: PlacedInput[];
  /** Status at the end. */
  status: ExecutionStatus;
  stop?: { seq: number; reason: string };
}

/** Extracts the inputs from the events; events that the agent caused are skipped. */
export function extractInputs({ events, calls }: Pick<Recording, "events" | "calls">): Inputs {
  const inputs: PlacedInput[] = [];
  const work = { actions: 0, results: 0 };
  const open = new Set<string>();
  /** Order of the tool calls; `results` has the results since the last call. */
  const order = new Map<string, number>();
  /** Times of the agent's actions and results. */
  const marks: number[] = [];
  let results: { call: number; isCutOff: boolean }[] = [];
  let status: ExecutionStatus = "idle";
  const place = (seq: number, now: ExecutionStatus): InputPoint => {
    const during = findCallDuring(calls, seq);
    if (during) return { kind: "call", ...during };
    const rests = now !== "running" && (open.size === 0 || now === "waiting_for_confirmation");
    return rests ? { kind: "rest", status: now } : { kind: "work", ...work };
  };
  for (let index = 0; index < events.length; index++) {
    const { seq } = events[index]!;
    const event = events[index]!.event as Event;
    const next = events[index + 1]?.event as Event | undefined;
    const before = status;
    const add = (input: Input, point = place(seq, before)) => {
      const mark = point.kind === "work" ? marks[point.actions + point.results - 1] : undefined;
      inputs.push({ input, point, seq, afterMs: mark ? Math.max(0, getTime(event) - mark) : 0 });
    };
    switch (event.kind) {
      case "MessageEvent": {
        if (event.source === "agent") {
          work.actions++;
          marks.push(getTime(event));
        }
        if (event.source !== "user") break;
        const run = isStatus(next, "running");
        const { content } = event.llm_message;
        if (!Check(Type.Array(Content), content))
          return {
            inputs,
            status,
            stop: { seq, reason: `the message at ${seq} has no content that can be sent` },
          };
        add({
          kind: "message",
          content,
          ...(typeof event.sender === "string" && { sender: event.sender }),
          run,
        });
        // The message itself caused this status change.
        if (run) {
          status = "running";
          index++;
        }
        break;
      }
      case "ActionEvent":
        work.actions++;
        marks.push(getTime(event));
        open.add(event.tool_call_id);
        order.set(event.tool_call_id, order.size);
        results = [];
        break;
      case "UserRejectObservation": {
        open.delete(event.tool_call_id);
        if (event.rejection_source === "hook") break;
        const isLast = (next as { kind?: string } | undefined)?.kind !== "UserRejectObservation";
        // Before a message, the message caused the rejection.
        if (isLast && isStatus(next, "idle")) add({ kind: "reject", reason: event.rejection_reason });
        break;
      }
      case "ObservationEvent":
      case "AgentErrorEvent":
        work.results++;
        marks.push(getTime(event));
        open.delete(event.tool_call_id);
        results.push({
          call: order.get(event.tool_call_id) ?? 0,
          isCutOff: event.kind === "AgentErrorEvent" && isInterruption(event.error),
        });
        break;
      case "PauseEvent":
        add({ kind: "pause" });
        break;
      case "InterruptEvent":
        add({ kind: "interrupt" }, adjustInterruptPoint(place(seq, before), results));
        break;
      case "CondensationRequest":
        if (!calls.some(({ failure, at_seq, stored_seq }) => failure && at_seq < seq && seq <= stored_seq))
          add({ kind: "condense" });
        break;
      case "ConversationStateUpdateEvent":
        if (event.key === "leaf_event_id")
          return {
            inputs,
            status,
            stop: { seq, reason: "the conversation was taken back to an earlier event" },
          };
        if (event.key !== "execution_status") break;
        status = event.value as ExecutionStatus;
        // After `finished`, only the agent continues.
        if (status === "running" && before !== "running" && before !== "finished") add({ kind: "run" });
    }
  }
  return { inputs, status };
}

/**
 * The point of an interrupt is before the results of the calls that it cut off and of later calls
 * in the batch.
 */
function adjustInterruptPoint(
  point: InputPoint,
  results: readonly { call: number; isCutOff: boolean }[],
): InputPoint {
  if (point.kind !== "work") return point;
  const first = Math.min(...results.filter(({ isCutOff }) => isCutOff).map(({ call }) => call));
  return { ...point, results: point.results - results.filter(({ call }) => call >= first).length };
}

/** Milliseconds since the epoch; 0 for an invalid time. */
function getTime({ timestamp }: Event): number {
  return Date.parse(`${timestamp}Z`) || 0;
}

function isStatus(event: Event | undefined, status: ExecutionStatus): boolean {
  return (
    event?.kind === "ConversationStateUpdateEvent" &&
    event.key === "execution_status" &&
    event.value === status
  );
}

/** The model call during which a record was written that is not its own. */
function findCallDuring(
  calls: readonly RecordedCall[],
  seq: number,
): { usageId: string; index: number } | undefined {
  const counts = new Map<string, number>();
  for (const { usage_id: usageId, at_seq, stored_seq } of calls) {
    const index = counts.get(usageId) ?? 0;
    counts.set(usageId, index + 1);
    if (belongsToRun(usageId) && at_seq < seq && seq <= stored_seq) return { usageId, index };
  }
  return undefined;
}

/** Calls that a run waits for; other calls leave no event. */
export function belongsToRun(usageId: string): boolean {
  return usageId === "agent" || usageId === "condenser" || usageId.includes("hook:");
}
