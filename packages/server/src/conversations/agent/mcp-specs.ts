import { restore } from "@sandpiper/agent/mcp/config";
import type { ServerSpec } from "@sandpiper/agent/mcp/server-spec";
import { McpServer, type McpServers } from "@sandpiper/wire";
import { Value } from "typebox/value";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Settings } from "../../users/api.ts";
import type { AgentConfigResolver } from "./agent-config.ts";
import type { FoundServers } from "./project-knowledge.ts";

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

/** Maximum servers of a conversation; a configuration may have more. */
const maxServers = 30;

export interface McpSpecsDeps {
  agents: Pick<AgentConfigResolver, "clientAgent">;
  settings: Pick<Settings, "mcpServers" | "agentProfiles">;
  /** Servers of plugins and active skills; `invoked` names skills that the agent has just read. */
  foundServers(row: Row, invoked: Iterable<string>): Promise<FoundServers>;
  /** Why servers from the sandbox may use no secret; undefined when they may. */
  withheld(row: Row): Promise<string | undefined>;
}

/**
 * The enabled MCP servers of a conversation: of the client's agent, else of the user's settings;
 * servers of plugins and skills are added under unused names. Invalid ones are omitted.
 */
export async function resolveServerSpecs(
  { agents, settings, foundServers, withheld }: McpSpecsDeps,
  row: Row,
  invoked: Iterable<string> = [],
): Promise<ServerSpec[]> {
  const [stored, client] = await Promise.all([settings.mcpServers(row.userId), agents.clientAgent(row)]);
  const config = client?.agent?.mcp_config;
  const own = config ? parseServers(config, stored) : await filterByProfile(stored, settings, row);
  const specs: ServerSpec[] = Object.entries(own).map(([name, server]) => ({ name, server, from: "user" }));
  const { servers, inside } = await foundServers(row, invoked);
  const reason = inside.size > 0 ? await withheld(row) : undefined;
  for (const [name, server] of Object.entries(parseServers(servers, {}))) {
    if (Object.hasOwn(own, name)) continue;
    const isWithheld = reason !== undefined && inside.has(name);
    specs.push({ name, server, from: "plugin", ...(isWithheld && { withheld: reason }) });
  }
  return specs
    .filter(({ server }) => server.enabled !== false && (server.url || server.command))
    .slice(0, maxServers);
}

/** Parses a map of servers, possibly nested in `mcpServers`; masked values come from `stored`. */
export function parseServers(config: Readonly<Record<string, unknown>>, stored: McpServers): McpServers {
  const { mcpServers } = config;
  const map =
    isMap(mcpServers) && mcpServers.url === undefined && mcpServers.command === undefined
      ? mcpServers
      : config;
  const servers = Object.entries(map).flatMap(([name, value]): [string, McpServer][] => {
    const server = parseServer(value);
    if (!server || name === "" || name.length > 256) return [];
    return [[name, restore(server, Object.hasOwn(stored, name) ? stored[name] : undefined)]];
  });
  return Object.fromEntries(servers);
}

/** Accepts the forms of other programs: `type` for the transport, and a bearer token as `auth`. */
function parseServer(value: unknown): McpServer | undefined {
  if (!isMap(value)) return undefined;
  const { type, auth, ...rest } = value;
  const transport =
    rest.transport ?? (type === "shttp" || type === "streamableHttp" ? "streamable-http" : type);
  const server = Object.fromEntries(
    Object.entries({
      ...rest,
      transport,
      auth: typeof auth === "string" && auth !== "oauth" ? { strategy: "bearer", value: auth } : auth,
    }).filter(
      ([field, one]) => Object.hasOwn(McpServer.properties, field) && one !== undefined && one !== "oauth",
    ),
  );
  return Value.Check(McpServer, server) ? server : undefined;
}

async function filterByProfile(
  stored: McpServers,
  { agentProfiles }: McpSpecsDeps["settings"],
  { userId, config }: Pick<ConversationRow, "userId" | "config">,
): Promise<McpServers> {
  const { launchedProfile: launched } = config;
  if (!launched) return stored;
  const { mcpServerRefs } = launched;
  const refs =
    mcpServerRefs === undefined
      ? (await agentProfiles.byId(userId, launched.id))?.mcp_server_refs
      : mcpServerRefs;
  return refs ? Object.fromEntries(Object.entries(stored).filter(([name]) => refs.includes(name))) : stored;
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
