import { PlatformError } from "@sandpiper/core/errors";
import type { MCPToolAction, MCPToolObservation, ToolDefinition } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import type { TSchema } from "typebox";
import { judgeArguments } from "../risk/pattern.ts";
import type { Tool, ToolTraits } from "../tools/tool.ts";
import { resultContent } from "./result.ts";
import type { ServerLink } from "./server-link.ts";
import type { ListedTool } from "./tool-list.ts";

/** Characters of one call's arguments. */
const maxArguments = 2 * 1024 * 1024;

export const mcpTraits = {
  actionKind: "MCPToolAction",
  outside: true,
  risk: ({ data }) => ({ findings: judgeArguments(data), usual: "MEDIUM" }),
} satisfies Omit<ToolTraits<MCPToolAction>, "name">;

/** A server's tool as an agent's tool (events.md section 3), under the name that the model uses. */
export function mcpTool(
  name: string,
  listed: ListedTool,
  link: ServerLink,
): Tool<MCPToolAction, MCPToolObservation> {
  const { description, parameters, readOnly, destructive, idempotent, openWorld } = listed;
  const definition: ToolDefinition = {
    kind: "MCPToolDefinition",
    title: name,
    description,
    action_type: "MCPToolAction",
    observation_type: "MCPToolObservation",
    annotations: {
      title: name,
      readOnlyHint: readOnly,
      destructiveHint: destructive,
      idempotentHint: idempotent,
      openWorldHint: openWorld,
    },
    mcp_tool: { name, description, inputSchema: { ...parameters } },
  };
  return {
    ...mcpTraits,
    name,
    definition,
    description,
    parameters,
    idempotent,
    // The server's own hint must not skip the risk rules.
    readOnly: false,
    risk(action) {
      const { findings, usual } = mcpTraits.risk(action);
      return { findings: listed.saysDestructive ? ["destructive-tool", ...findings] : findings, usual };
    },
    resources: () => (readOnly ? [] : [`mcp:${link.spec.name}`]),
    readArguments: (received) => readArguments(parameters, received),
    async run({ data }, { signal, sandbox, onProgress }) {
      if (JSON.stringify(data).length > maxArguments)
        throw new Error(`The arguments are longer than ${maxArguments} characters.`);
      // A paused sandbox could not answer.
      if (link.spec.server.command) await sandbox();
      let answered: Awaited<ReturnType<ServerLink["call"]>>;
      try {
        answered = await link.call(listed.name, data, { signal, onProgress });
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof PlatformError) || error.code !== "McpFailed") throw error;
        // Clients show an action as done once it has an observation.
        const content = [textContent(error.message)];
        return { kind: "MCPToolObservation", content, is_error: true, tool_name: name };
      }
      const { answer, shown } = answered;
      const { content, isError } = resultContent(answer);
      const masked = content.map((part) => (part.type === "text" ? textContent(shown(part.text)) : part));
      const header = `[The tool ${name} ${isError ? "reported an error" : "was run"}.]`;
      return {
        kind: "MCPToolObservation",
        content: [textContent(header), ...masked],
        is_error: isError,
        tool_name: name,
      };
    },
  };
}

type Properties = Record<string, { type?: string } | undefined>;

/**
 * The arguments of an MCP call, without nulls and with JSON text decoded. Only checks that required
 * ones exist: the server validates, and the known schema may be cut.
 */
export function readArguments(
  schema: TSchema,
  received: Record<string, unknown>,
): { fitted: { data: Record<string, unknown> } } | { problems: string[] } {
  const { properties = {}, required = [] } = schema as { properties?: Properties; required?: string[] };
  const given = Object.entries(received).filter(([name, value]) => value !== null || required.includes(name));
  const data = Object.fromEntries(
    given.map(([name, value]) => [
      name,
      decode(Object.hasOwn(properties, name) ? properties[name]?.type : undefined, value),
    ]),
  );
  const problems = required.filter((name) => !Object.hasOwn(data, name)).map((name) => `${name} is missing`);
  return problems.length > 0 ? { problems } : { fitted: { data } };
}

function decode(type: string | undefined, value: unknown): unknown {
  if (typeof value !== "string" || type === undefined || type === "string") return value;
  if ((type === "number" || type === "integer") && !/^\s*[+-]?\d{1,15}(\.\d{1,15})?\s*$/.test(value))
    return value;
  let parsed: unknown;
  try {
    parsed = JSON.parse(type === "boolean" ? value.trim().toLowerCase() : value.replace(/^\s*\+/, ""));
  } catch {
    return value;
  }
  const isList = Array.isArray(parsed);
  const found = parsed === null ? "null" : isList ? "array" : typeof parsed;
  return found === type || (found === "number" && type === "integer") ? parsed : value;
}
