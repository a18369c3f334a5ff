import type { ServerSpec } from "@sandpiper/agent/mcp/server-spec";
import { McpConnections } from "@sandpiper/agent/mcp/servers";
import { namesMatching } from "@sandpiper/agent/tools/choose";
import type { Tool } from "@sandpiper/agent/tools/tool";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { AgentConfigResolver } from "./agent-config.ts";
import type { McpSessions } from "./mcp-sessions.ts";
import type { ToolSource } from "./toolset.ts";

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

export interface McpToolsDeps {
  agents: Pick<AgentConfigResolver, "clientAgent" | "tools">;
  /** The servers of a conversation; `invoked` names skills that the agent has just read. */
  findServers(row: Row, invoked?: Iterable<string>): Promise<ServerSpec[]>;
  sessions: McpSessions;
  /** How long servers stay connected after a run, ms; default 5 minutes. */
  lingerMs?: number;
}

interface Connection {
  sandboxId: string;
  servers: McpConnections;
  timer: NodeJS.Timeout | undefined;
  /** Names of skills that the agent has read, whose servers stay. */
  invoked: Set<string>;
}

/** The tools of MCP servers, which stay connected for some minutes after a run. */
export class McpTools implements ToolSource {
  readonly #deps: McpToolsDeps;
  readonly #connections = new Map<string, Connection>();
  /** Serialises the changes of a conversation's servers. */
  readonly #changes = new KeyedMutex();

  constructor(deps: McpToolsDeps) {
    this.#deps = deps;
  }

  async tools(row: Row): Promise<readonly Tool[]> {
    const servers = this.#connections.get(row.id)?.servers;
    if (!servers) return [];
    const { agents } = this.#deps;
    const own = await agents.tools(row);
    const tools = servers.tools(new Set(own.map(({ name }) => name)));
    // A planning agent may only read.
    if (row.config.agentType === "plan")
      return tools.filter(({ definition }) => definition.annotations.readOnlyHint);
    const expression = (await agents.clientAgent(row))?.agent?.filter_tools_regex;
    return expression ? filterTools(tools, expression) : tools;
  }

  async hasServers(row: Row): Promise<boolean> {
    return (await this.#deps.findServers(row)).length > 0;
  }

  async prepare(row: Row, signal: AbortSignal): Promise<readonly string[]> {
    const { notes } = await this.#changes.run(row.id, async () => {
      const specs = await this.#deps.findServers(row, this.#connections.get(row.id)?.invoked);
      const connection = this.#connections.get(row.id);
      clearTimeout(connection?.timer);
      // Only the beginning of a connection is serialised, because connecting may take seconds.
      const idle = specs.length === 0 && !connection;
      return { notes: idle ? [] : this.#getOrCreate(row).servers.prepare(specs, signal) };
    });
    return notes;
  }

  /** Connects the servers of a skill that the agent reads during its run, as in `prepare`. */
  async join(row: Row, skill: string, signal: AbortSignal): Promise<readonly string[]> {
    this.#getOrCreate(row).invoked.add(skill);
    return this.prepare(row, signal);
  }

  rest(conversationId: string): void {
    this.#connections.get(conversationId)?.servers.close({ all: false });
    this.linger(conversationId);
  }

  /** Closes the servers after a delay, unless a run needs them. */
  linger(conversationId: string): void {
    const connection = this.#connections.get(conversationId);
    if (!connection) return;
    clearTimeout(connection.timer);
    connection.timer = setTimeout(() => this.drop(conversationId), this.#deps.lingerMs ?? 300_000).unref();
  }

  drop(conversationId: string): void {
    const connection = this.#connections.get(conversationId);
    clearTimeout(connection?.timer);
    connection?.servers.close({ all: true });
    this.#connections.delete(conversationId);
  }

  leave(sandboxIds: ReadonlySet<string>): void {
    for (const [id, { sandboxId }] of this.#connections) if (sandboxIds.has(sandboxId)) this.drop(id);
  }

  close(): void {
    for (const id of [...this.#connections.keys()]) this.drop(id);
    void this.#deps.sessions.close();
  }

  #getOrCreate(row: Row): Connection {
    let connection = this.#connections.get(row.id);
    if (!connection) {
      connection = {
        sandboxId: row.sandboxId,
        servers: new McpConnections(this.#deps.sessions.opener(row)),
        timer: undefined,
        invoked: new Set(),
      };
      this.#connections.set(row.id, connection);
    }
    return connection;
  }
}

/** Filtered tools by list. A client's expression is validated at creation and has a time limit. */
const filters = new WeakMap<readonly Tool[], { expression: string; tools: readonly Tool[] }>();

function filterTools(tools: readonly Tool[], expression: string): readonly Tool[] {
  const cached = filters.get(tools);
  if (cached?.expression === expression) return cached.tools;
  let names: string[] = [];
  try {
    names = namesMatching(
      tools.map(({ name }) => name),
      expression,
    );
  } catch {
    // An expression that is too slow matches nothing.
  }
  const matching = tools.filter(({ name }) => names.includes(name));
  filters.set(tools, { expression, tools: matching });
  return matching;
}
