import type { JsonSchema } from "./schema.ts";

const hex = "0b9be4d6c2a74f7e8d1f5a3c6e2b9d04";
const uuid = "0b9be4d6-c2a7-4f7e-8d1f-5a3c6e2b9d04";
const time = "2026-08-20T10:00:00.000000Z";

/** Example values by field name. */
const byName: Record<string, unknown> = {
  id: hex,
  conversation_id: hex,
  app_conversation_id: hex,
  sandbox_id: "sbx-7k2mq4xw5nd3cbz6rta8veyj",
  sandbox_spec_id: "host",
  title: "Fix the failing test",
  text: "Fix the failing test",
  selected_repository: "acme/widgets",
  repository: "acme/widgets",
  full_name: "acme/widgets",
  repo: "acme/widgets",
  selected_branch: "main",
  main_branch: "main",
  branch: "main",
  git_provider: "github",
  provider: "github",
  llm_model: "anthropic/claude-sonnet-4-5",
  model: "anthropic/claude-sonnet-4-5",
  model_name: "anthropic/claude-sonnet-4-5",
  agent_kind: "openhands",
  role: "user",
  language: "en",
  agent: "CodeActAgent",
  working_dir: "/workspace/project",
  path: "src/main.ts",
  name: "example",
  description: "What it is for",
  conversation_url: `http://localhost:3000/agent/sbx-4c2hq7xkz3mnw5ayt6jrbd2e/api/conversations/${hex}`,
  agent_server_url: "http://localhost:3000/agent/sbx-4c2hq7xkz3mnw5ayt6jrbd2e",
  url: "http://localhost:3000",
  created_at: time,
  updated_at: time,
  timestamp: "2026-08-20T10:00:00.000000",
  next_page_id: null,
  email: "user@example.com",
  git_user_email: "user@example.com",
  status: "READY",
  sandbox_status: "RUNNING",
  execution_status: "running",
};

/** Names whose values are secrets, which examples omit. */
const secretName = /key$|token$|secret|password|^value$/;

/**
 * Builds an example of a schema: its own examples and defaults, else values by field name, else the
 * simplest valid value. Requests show required and well-known fields; responses show every field.
 */
export function buildExample(schema: JsonSchema, side: "request" | "answer", name = "", depth = 0): unknown {
  if (schema.examples?.length) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum.includes(byName[name]) ? byName[name] : schema.enum[0];
  if (schema.anyOf) return buildUnionExample(schema.anyOf, side, name, depth);
  if (schema.properties) return buildObjectExample(schema, side, depth);
  if (schema.type === "array") return buildArrayExample(schema, side, name, depth);
  if (schema.type === "object") return {};
  if (schema.type === "null") return null;
  if (schema.type === "string") return buildTextExample(schema, name);
  if (schema.default !== undefined) return schema.default;
  if (schema.type === "boolean") return name === "success";
  if (schema.type === "integer" || schema.type === "number")
    return schema.minimum ?? (schema.exclusiveMinimum ?? -1) + 1;
  return {};
}

function buildUnionExample(
  branches: JsonSchema[],
  side: "request" | "answer",
  name: string,
  depth: number,
): unknown {
  const nullable = branches.some(({ type }) => type === "null");
  if (nullable && (depth > 2 || (!(name in byName) && side === "answer") || secretName.test(name)))
    return null;
  if (nullable && byName[name] === null) return null;
  return buildExample(branches.find(({ type }) => type !== "null") ?? {}, side, name, depth);
}

function buildObjectExample(
  { properties = {}, required = [] }: JsonSchema,
  side: "request" | "answer",
  depth: number,
): unknown {
  const shown = Object.entries(properties).filter(
    ([key]) =>
      required.includes(key) || (side === "request" && depth === 0 && key in byName && !secretName.test(key)),
  );
  return Object.fromEntries(
    shown.map(([key, property]) => [key, buildExample(property, side, key, depth + 1)]),
  );
}

function buildArrayExample(
  { items, minItems = 0 }: JsonSchema,
  side: "request" | "answer",
  name: string,
  depth: number,
): unknown {
  const wanted = minItems > 0 || ["items", "content"].includes(name) || depth === 0;
  return wanted && items ? [buildExample(items, side, name, depth + 1)] : [];
}

function buildTextExample(
  { format, pattern, minLength = 0, default: fallback }: JsonSchema,
  name: string,
): unknown {
  const example = byName[name];
  if (format === "uuid") return uuid;
  if (format === "date-time") return time;
  if (typeof example === "string" && (pattern === undefined || new RegExp(pattern).test(example)))
    return example;
  return fallback ?? "text".padEnd(minLength, "x");
}
