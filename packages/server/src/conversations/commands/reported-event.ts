import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import { PlatformError } from "@sandpiper/core/errors";
import { stripUnknownFields } from "@sandpiper/core/strip-unknown-fields";
import {
  Event,
  type ExecutionStatus,
  emptyUsage,
  eventKinds,
  executionStatuses,
  type MetricsSnapshot,
  maxReportedEventLength,
  type NewEvent,
  parseId,
  type ReportedEvent,
  type Stats,
  type TokenUsage,
} from "@sandpiper/wire";
import type { TSchema } from "typebox";
import { Value } from "typebox/value";
import { omitNulls } from "../../store/event-json.ts";

type Fields = Record<string, unknown>;

const schemas = new Map<string, TSchema>(Event.anyOf.map((schema) => [schema.properties.kind.const, schema]));

/** Never stored, because later events contain their information. */
const transientKinds = new Set([
  "StreamingDeltaEvent",
  "ServerErrorEvent",
  "TokenEvent",
  "LLMCompletionLogEvent",
]);

/**
 * Converts a reported event into a record without unknown fields and with a new timestamp;
 * undefined for transient events, unknown kinds, and state updates other than status and stats.
 * Throws InvalidParameter when the event violates its kind's schema, because clients would fail to
 * read it.
 */
export function parseReportedEvent(event: ReportedEvent): NewRecord | undefined {
  if (!(eventKinds as readonly string[]).includes(event.kind) || transientKinds.has(event.kind))
    return undefined;
  if (JSON.stringify(event).length > maxReportedEventLength)
    throw new PlatformError("ReportedEventTooLong", { id: String(event.id), max: maxReportedEventLength });
  if (event.kind === "ConversationStateUpdateEvent") return stateUpdate(event as Fields);
  const compact = omitNulls(event) as Fields;
  const schema = schemas.get(event.kind);
  if (!schema) return toRecord(compact);
  const { tool, rest } = foreignTool(compact);
  const stamped = { ...rest, timestamp: "" };
  const [problem] = Value.Errors(schema, stamped);
  if (problem) {
    const place = problem.instancePath === "" ? "" : ` at ${problem.instancePath.slice(0, 128)}`;
    const { id, kind } = event;
    throw new PlatformError("ReportedEventInvalid", {
      id: String(id),
      kind,
      problem: `${problem.message}${place}`,
    });
  }
  return toRecord({ ...(stripUnknownFields(schema, stamped) as Fields), ...tool });
}

/**
 * Replaces an action or observation of a tool that this server does not have by a known one, so
 * that the rest of the event can be validated; `tool` holds the original.
 */
function foreignTool(event: Fields): { tool: Fields; rest: Fields } {
  const { action, observation } = event as { action?: Fields; observation?: Fields };
  if (isForeign(action, "Action")) return { tool: { action }, rest: { ...event, action: undefined } };
  if (isForeign(observation, "Observation")) {
    const content = observation.content ?? [];
    const known = { kind: "ThinkObservation", content, is_error: observation.is_error ?? false };
    return { tool: { observation: { ...observation, content } }, rest: { ...event, observation: known } };
  }
  return { tool: {}, rest: event };
}

const ownKinds: ReadonlySet<string> = new Set(
  JSON.stringify(Event)
    .match(/"const":"\w+"/g)
    ?.map((toText) => toText.slice(9, -1)),
);

function isForeign(part: Fields | undefined, suffix: "Action" | "Observation"): part is Fields {
  const kind = part?.kind;
  return (
    typeof kind === "string" && new RegExp(`^[A-Za-z]{1,64}${suffix}$`).test(kind) && !ownKinds.has(kind)
  );
}

function toRecord(event: Fields): NewRecord {
  const { timestamp: _time, id, ...rest } = event;
  return { listed: true, event: { ...rest, id: parseId(String(id)) ?? id } as NewEvent };
}

function stateUpdate({ key, value }: Fields): NewRecord | undefined {
  const parsed =
    key === "stats" ? parseStats(value) : key === "execution_status" ? parseStatus(value) : undefined;
  if (parsed === undefined) return undefined;
  return {
    listed: false,
    event: { kind: "ConversationStateUpdateEvent", source: "environment", key: key as string, value: parsed },
  };
}

/** A valid status other than `deleting` (app-server.md section 8); undefined otherwise. */
export function parseStatus(value: unknown): ExecutionStatus | undefined {
  return executionStatuses.find((status) => status === value && status !== "deleting");
}

const maxUsageIds = 100;

/** The stats of a report in wire form; undefined when they are missing. */
export function parseStats(value: unknown): Stats | undefined {
  const usages = (value as { usage_to_metrics?: unknown } | null | undefined)?.usage_to_metrics;
  if (typeof usages !== "object" || usages === null) return undefined;
  const entries = Object.entries(usages).slice(0, maxUsageIds);
  return {
    usage_to_metrics: Object.fromEntries(
      entries.map(([id, metrics]) => [id.slice(0, 128), parseMetrics(metrics)]),
    ),
  };
}

function parseMetrics(value: unknown): MetricsSnapshot {
  const metrics = (value ?? {}) as Fields;
  const budget = metrics.max_budget_per_task;
  const usage = metrics.accumulated_token_usage;
  return {
    model_name: text(metrics.model_name) || "default",
    accumulated_cost: toAmount(metrics.accumulated_cost),
    max_budget_per_task: typeof budget === "number" ? toAmount(budget) : null,
    accumulated_token_usage: typeof usage === "object" && usage !== null ? parseUsage(usage as Fields) : null,
  };
}

function parseUsage(usage: Fields): TokenUsage {
  const counts = Object.entries(emptyUsage()).map(([name, empty]) => {
    return [name, typeof empty === "number" ? Math.floor(toAmount(usage[name])) : text(usage[name])];
  });
  return Object.fromEntries(counts);
}

function toAmount(value: unknown): number {
  return typeof value === "number" && value > 0 ? Math.min(value, Number.MAX_SAFE_INTEGER) : 0;
}

function text(value: unknown): string {
  return typeof value === "string" ? value.slice(0, 256) : "";
}
