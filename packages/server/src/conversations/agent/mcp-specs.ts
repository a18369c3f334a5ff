import { restore } from "@sandpiper/agent/mcp/config";
import type { ServerSpec } from "@sandpiper/agent/mcp/server-spec";
import { McpServer, type McpServers } from "@sandpiper/wire";
import { Value } from "typebox/value";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Settings } from "../../users/api.ts";
import type { AgentConfigResolver } from "./agent-config.ts";

type Row = Pick<ConversationRow, "id" | "userId" | "config">;

/** Servers of one conversation; a configuration has room for more. */
const maxServers = 30;

export interface McpSpecsDeps {
  agents: Pick<AgentConfigResolver, "clientAgent">;
  settings: Pick<Settings, "mcpServers" | "agentProfiles">;
  /** Those of the conversation's plugins and active skills; `invoked` are skills that its agent has just read. */
  foundServers(row: Row, invoked: Iterable<string>): Readonly<Record<string, unknown>>;
}

/**
 * The MCP servers of a conversation: those of the agent that its client gave, else of the user's settings, and those of its plugins and skills under names that are free.
 * Disabled ones and what is no server are left out.
 */
export function resolveServerSpecs(
  { agents, settings, foundServers }: McpSpecsDeps,
  row: Row,
  invoked: Iterable<string> = [],
): ServerSpec[] {
  const stored = settings.mcpServers(row.userId);
  const given = agents.clientAgent(row)?.agent?.mcp_config;
  const own = given ? parseServers(given, stored) : filterByProfile(stored, settings, row);
  const specs: ServerSpec[] = Object.entries(own).map(([name, server]) => ({ name, server, from: "user" }));
  for (const [name, server] of Object.entries(parseServers(foundServers(row, invoked), {})))
    if (!Object.hasOwn(own, name)) specs.push({ name, server, from: "plugin" });
  return specs
    .filter(({ server }) => server.enabled !== false && (server.url || server.command))
    .slice(0, maxServers);
}

/** The servers in what somebody gave: a map by name, alone or below `mcpServers`. */
export function parseServers(given: Readonly<Record<string, unknown>>, stored: McpServers): McpServers {
  const { mcpServers } = given;
  const map =
    isMap(mcpServers) && mcpServers.url === undefined && mcpServers.command === undefined
      ? mcpServers
      : given;
  const found = Object.entries(map).flatMap(([name, value]): [string, McpServer][] => {
    const server = parseServer(value);
    if (!server || name === "" || name.length > 256) return [];
    return [[name, restore(server, Object.hasOwn(stored, name) ? stored[name] : undefined)]];
  });
  return Object.fromEntries(found);
}

/** Other programs name the kind of a server `type`, and a key in place of the whole `auth`. */
function parseServer(value: unknown): McpServer | undefined {
  if (!isMap(value)) return undefined;
  const { type, auth, ...rest } = value;
  const transport =
    rest.transport ?? (type === "shttp" || type === "streamableHttp" ? "streamable-http" : type);
  const known = Object.fromEntries(
    Object.entries({
      ...rest,
      transport,
      auth: typeof auth === "string" && auth !== "oauth" ? { strategy: "bearer", value: auth } : auth,
    }).filter(
      ([field, one]) => Object.hasOwn(McpServer.properties, field) && one !== undefined && one !== "oauth",
    ),
  );
  return Value.Check(McpServer, known) ? known : undefined;
}

function filterByProfile(
  stored: McpServers,
  { agentProfiles }: McpSpecsDeps["settings"],
  { userId, config }: Pick<ConversationRow, "userId" | "config">,
): McpServers {
  if (!config.launchedProfile) return stored;
  const refs = agentProfiles.byId(userId, config.launchedProfile.id)?.mcp_server_refs;
  return refs ? Object.fromEntries(Object.entries(stored).filter(([name]) => refs.includes(name))) : stored;
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
