import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";
import { McpAuth, McpTestResult } from "./mcp.ts";

const texts = Type.Record(
  Type.String({ maxLength: 1024 }),
  Type.String({ format: "password", maxLength: 16_384 }),
  {
    maxProperties: 100,
  },
);

const types = StringEnum(["stdio", "http", "shttp", "streamable-http", "sse"]);

/**
 * Body of `POST /api/mcp/test` and `POST /api/mcp/oauth/start` (agent-server.md section 9). Masked
 * secrets stand for those of the stored server of this name. `transport` is the settings' `type`,
 * which clients may also send. Without both, a url means a remote server.
 */
export const McpTestRequest = Type.Object({
  name: Type.Optional(Type.String({ maxLength: 256, default: "test" })),
  server: Type.Object({
    type: Type.Optional(types),
    transport: Type.Optional(Nullable(types)),
    url: Type.Optional(Type.String({ minLength: 1, maxLength: 8192 })),
    headers: Type.Optional(Nullable(texts)),
    auth: Type.Optional(Nullable(McpAuth)),
    command: Type.Optional(Type.String({ minLength: 1, maxLength: 8192 })),
  }),
  timeout: Type.Optional(
    Type.Number({ exclusiveMinimum: 0, maximum: 120, default: 15, description: "seconds" }),
  ),
  tool_call: Type.Optional(
    Nullable(
      Type.Object({
        name: Type.String({ minLength: 1, maxLength: 256 }),
        arguments: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      }),
    ),
  ),
});

/** Answer of the test: its tools, and what the called one said. */
export const McpTestAnswer = Type.Object({
  ...McpTestResult.properties,
  tool_result: Type.Optional(Type.Object({ is_error: Type.Boolean(), text: Type.String() })),
});

/** Answer of `POST /api/mcp/oauth/start`. */
export const McpOAuthStart = Type.Object({
  ok: Type.Boolean(),
  job_id: Type.Null(),
  authorization_url: Type.Null(),
  error: Type.String(),
  error_kind: StringEnum(["timeout", "connection", "unknown"]),
});

export type McpTestRequest = Static<typeof McpTestRequest>;
export type McpTestAnswer = Static<typeof McpTestAnswer>;
