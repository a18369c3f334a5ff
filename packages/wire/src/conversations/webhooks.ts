import { type Static, Type } from "typebox";
import { Nullable } from "../common/schema.ts";
import { ExecutionStatus } from "./state.ts";

/** Most events of one report, and most characters of one event. */
export const maxReportedEvents = 1_000;
export const maxReportedEventLength = 1024 * 1024;

/**
 * Body of `POST /api/v1/webhooks/conversations`: an agent server's report on a conversation that it
 * runs (app-server.md section 8, agent-server.md section 3.2). Other fields are ignored.
 */
export const ReportedConversation = Type.Object({
  id: Type.String({ format: "uuid" }),
  title: Type.Optional(Nullable(Type.String())),
  execution_status: Type.Optional(Nullable(ExecutionStatus)),
  tags: Type.Optional(Nullable(Type.Record(Type.String(), Type.String()))),
  agent: Type.Optional(
    Nullable(
      Type.Object({
        llm: Type.Optional(Nullable(Type.Object({ model: Type.Optional(Nullable(Type.String())) }))),
      }),
    ),
  ),
  stats: Type.Optional(Nullable(Type.Unknown({ description: "as the value of the `stats` state update" }))),
});

/** An event of such a conversation; its kind decides its further fields (events.md section 2). */
export const ReportedEvent = Type.Object(
  {
    id: Type.String({ minLength: 1, maxLength: 128 }),
    kind: Type.String({ minLength: 1, maxLength: 128 }),
  },
  { additionalProperties: true },
);

/** Body of `POST /api/v1/webhooks/events/{conversation_id}`. */
export const ReportedEvents = Type.Array(ReportedEvent, { maxItems: maxReportedEvents });

export type ReportedConversation = Static<typeof ReportedConversation>;
export type ReportedEvent = Static<typeof ReportedEvent>;
