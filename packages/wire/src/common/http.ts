import { type Static, Type } from "typebox";
import { Event } from "../events/event.ts";
import { Nullable, Page } from "./schema.ts";

/**
 * Response of `GET /server_info`: the app server's and the agent server's fields (app-server.md
 * section 0, agent-server.md section 2). Times in seconds, sizes in bytes.
 */
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
  tools_version: Type.String(),
  workspace_version: Type.String(),
  build_git_sha: Type.String(),
  build_git_ref: Type.String(),
  python_version: Type.String({ description: "empty: nothing here is Python" }),
  usable_tools: Type.Array(Type.String()),
  runtime_idle_timeout_seconds: Nullable(
    Type.Number({ description: "after which an idle sandbox is paused" }),
  ),
  max_foreground_terminal_timeout_seconds: Nullable(Type.Number()),
  capabilities: Type.Array(Type.String()),
  conversation_runtime: Type.Literal("local"),
  available_conversation_runtimes: Type.Array(Type.String()),
  app_backend_ingress_url: Nullable(Type.String()),
  docs: Type.String(),
  redoc: Nullable(Type.String()),
});

/** Answer of the agent server's `GET /alive`, `/health` and `/ready`. */
export const ServerStatus = Type.Object({ status: Type.String() });

export const EventPage = Page(Event);

/** Body of `POST …/events/respond_to_confirmation` (agent-server.md section 4). */
export const ConfirmationResponse = Type.Object({
  accept: Type.Boolean(),
  reason: Type.Optional(Type.String({ maxLength: 10_000 })),
});

export type ServerInfo = Static<typeof ServerInfo>;
