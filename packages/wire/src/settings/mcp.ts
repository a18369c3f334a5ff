import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";

const text = Type.Optional(Nullable(Type.String({ maxLength: 8192 })));
const number = Type.Optional(Nullable(Type.Number({ minimum: 0 })));
const secret = Type.String({ format: "password", maxLength: 16_384 });
const secrets = Type.Record(Type.String({ maxLength: 1024 }), secret, { maxProperties: 100 });
const someSecret = Type.Optional(Nullable(secret));

/** How a remote MCP server knows its caller (openapi MCPServer `auth`). */
export const McpAuth = Type.Union([
  Type.Object({ strategy: Type.Literal("none") }),
  Type.Object({ strategy: Type.Literal("api_key"), value: someSecret, header_name: text }),
  Type.Object({ strategy: Type.Literal("bearer"), value: someSecret }),
  Type.Object({
    strategy: Type.Literal("basic"),
    username: Type.String({ maxLength: 1024 }),
    password: someSecret,
  }),
  Type.Object({ strategy: Type.Literal("header"), headers: Type.Optional(secrets) }),
  Type.Object({
    strategy: Type.Literal("oauth2"),
    authentication: Type.Optional(Nullable(Type.Record(Type.String(), Type.Unknown()))),
    state: Type.Optional(Nullable(Type.Record(Type.String(), Type.Unknown()))),
  }),
]);

/**
 * An MCP server of `agent_settings.mcp_config`: `url` for a remote server, `command` for a process
 * in the sandbox.
 */
export const McpServer = Type.Object({
  url: Type.Optional(Nullable(Type.String({ minLength: 1, maxLength: 8192 }))),
  transport: Type.Optional(Nullable(StringEnum(["stdio", "http", "sse", "streamable-http"]))),
  command: Type.Optional(Nullable(Type.String({ minLength: 1, maxLength: 8192 }))),
  args: Type.Optional(Nullable(Type.Array(Type.String({ maxLength: 65_536 }), { maxItems: 256 }))),
  env: Type.Optional(Nullable(secrets)),
  cwd: text,
  description: text,
  icon: text,
  timeout: number,
  sse_read_timeout: number,
  keep_alive: Type.Optional(Nullable(Type.Boolean())),
  headers: Type.Optional(Nullable(secrets)),
  auth: Type.Optional(Nullable(McpAuth)),
  enabled: Type.Optional(Nullable(Type.Boolean({ default: true }))),
});

/**
 * MCP servers by name (app-server.md section 5). Reads show values of `env`, `headers` and `auth`
 * as `**********`.
 */
export const McpServers = Type.Record(Type.String({ minLength: 1, maxLength: 256 }), McpServer, {
  maxProperties: 300,
});

/** Variables or headers as posted: null takes one out. */
export const someSecrets = Type.Optional(
  Nullable(Type.Record(Type.String({ maxLength: 1024 }), Nullable(secret), { maxProperties: 100 })),
);

const PostedMcpServer = Type.Object({ ...McpServer.properties, env: someSecrets, headers: someSecrets });

/**
 * The same in requests: null removes a variable, a header (as the released GUI does when `auth`
 * replaces it) or a whole server.
 */
export const PostedMcpServers = Type.Record(
  Type.String({ minLength: 1, maxLength: 256 }),
  Nullable(PostedMcpServer),
  {
    maxProperties: 300,
  },
);

/** Answer of `POST /api/v1/settings/mcp/{key}/test` (agent-server.md section 9, `/mcp/test`). */
export const McpTestResult = Type.Object({
  ok: Type.Boolean(),
  tools: Type.Optional(Type.Array(Type.String())),
  error: Type.Optional(Type.String()),
  error_kind: Type.Optional(StringEnum(["timeout", "connection", "unknown"])),
});

export type McpAuth = Static<typeof McpAuth>;
export type McpServer = Static<typeof McpServer>;
export type McpServers = Static<typeof McpServers>;
export type PostedMcpServer = Static<typeof PostedMcpServer>;
export type PostedMcpServers = Static<typeof PostedMcpServers>;
export type McpTestResult = Static<typeof McpTestResult>;
