import { type Static, Type } from "typebox";
import { Event } from "./events/event.ts";
import { Nullable, Page } from "./schema.ts";
import { ExecutionStatus, MetricsSnapshot, Stats } from "./state.ts";

/** Answer of `GET /server_info`: of the app server and of the agent server in one (app-server.md section 0, agent-server.md section 2). Times in seconds, sizes in bytes. */
export const ServerInfo = Type.Object({
  uptime: Type.Number(),
  idle_time: Type.Number(),
  resources: Type.Object({
    cpu: Type.Object({ count: Type.Integer(), load_1m: Type.Number() }),
    memory: Type.Object({ total: Type.Number(), available: Type.Number(), process: Type.Number() }),
    disk: Type.Object({ total: Type.Number(), available: Type.Number() }),
  }),
  title: Type.String(),
  version: Type.String(),
  sdk_version: Type.String(),
  docs: Type.String(),
});

export const EventPage = Page(Event);

/** Body of `POST …/events/respond_to_confirmation` (agent-server.md section 4). */
export const ConfirmationResponse = Type.Object({
  accept: Type.Boolean(),
  reason: Type.Optional(Type.String({ maxLength: 10_000 })),
});

/**
 * A conversation as the agent server shows it (agent-server.md section 3.2). Every field of the `full_state` frame stands in it too.
 * The id is dashed.
 */
export const ConversationInfo = Type.Object(
  {
    id: Type.String({ format: "uuid" }),
    title: Nullable(Type.String()),
    execution_status: ExecutionStatus,
    stats: Type.Optional(Stats),
    metrics: Nullable(MetricsSnapshot),
    tags: Type.Record(Type.String(), Type.String()),
    parent_conversation_id: Nullable(Type.String()),
    created_at: Type.String({ format: "date-time" }),
    updated_at: Type.String({ format: "date-time" }),
  },
  { additionalProperties: true },
);

export type ServerInfo = Static<typeof ServerInfo>;
export type ConversationInfo = Static<typeof ConversationInfo>;
