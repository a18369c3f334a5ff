import { isDeepStrictEqual } from "node:util";
import type { Tool } from "../tool.ts";
import { mcpTool } from "./mcp-tool.ts";
import { type OpenSession, ServerLink } from "./server-link.ts";
import type { ServerSpec } from "./server-spec.ts";
import { maxTools } from "./tool-list.ts";
import { ToolNames } from "./tool-names.ts";

/** How long a run waits for servers that it has not waited for before, ms. */
const waitMs = 10_000;

/** Tools of all servers of a conversation: providers take 128, those of the platform included. */
const maxAll = 100;

/** The MCP servers of one conversation, and their tools. */
export class McpServers {
  readonly #open: OpenSession;
  readonly #names = new ToolNames();
  #links: ServerLink[] = [];
  /** Servers that a run has waited for since they were last lost, and sentences that were told, by server. */
  readonly #waited = new WeakSet<ServerLink>();
  readonly #told = new Map<string, string>();
  #tools: { reserved: string; list: readonly Tool[] } | undefined;

  constructor(open: OpenSession) {
    this.#open = open;
  }

  /**
   * Connects to these servers and lets go of others. Resolves when all are connected or have failed, after ten seconds at the latest; the rest goes on beside the run.
   * Gives sentences about what is wrong, each once as long as it stays so. Throws the signal's reason.
   */
  async prepare(specs: readonly ServerSpec[], signal: AbortSignal): Promise<string[]> {
    this.#take(specs);
    const wanted = this.#links.filter((link) => !link.connected && link.pauseMs === 0);
    const fresh = wanted.filter((link) => !this.#waited.has(link));
    for (const link of fresh) this.#waited.add(link);
    const attempts = wanted.map((link) => ({ link, done: link.connect().catch(() => {}) }));
    const waitedFor = attempts.filter(({ link }) => fresh.includes(link)).map(({ done }) => done);
    if (waitedFor.length > 0) await atMost(waitMs, Promise.all(waitedFor), signal);
    return this.#notes();
  }

  /** What the model can call now. `reserved` are the names of other tools. */
  tools(reserved: ReadonlySet<string>): readonly Tool[] {
    const key = [...reserved].join(" ");
    if (this.#tools?.reserved === key) return this.#tools.list;
    const all = this.#links.flatMap((link) => link.tools.map((listed) => ({ link, listed })));
    const list = all.slice(0, maxAll).map(({ link, listed }) => {
      return mcpTool(this.#names.of(link.spec.name, listed.name, reserved), listed, link) as unknown as Tool;
    });
    this.#tools = { reserved: key, list };
    return list;
  }

  /** Whether something is connected. */
  get connected(): boolean {
    return this.#links.some((link) => link.connected);
  }

  /** Lets go of the servers that are not to be kept between runs; of all where `all` says so. What they can do is remembered. */
  close({ all }: { all: boolean }): void {
    for (const link of this.#links) if (all || link.spec.server.keep_alive === false) link.close();
  }

  #take(specs: readonly ServerSpec[]): void {
    const before = this.#links;
    this.#links = specs.map((spec) => {
      const known = before.find((link) => link.spec.name === spec.name && isDeepStrictEqual(link.spec, spec));
      return known ?? new ServerLink(spec, this.#open, () => (this.#tools = undefined));
    });
    for (const link of before) {
      if (this.#links.includes(link)) continue;
      link.close();
      this.#told.delete(link.spec.name);
    }
    this.#tools = undefined;
  }

  #notes(): string[] {
    const notes: string[] = [];
    for (const link of this.#links) {
      const note = noteOf(link);
      const { name } = link.spec;
      if (note === undefined) this.#told.delete(name);
      else if (this.#told.get(name) !== note) notes.push(note);
      if (note !== undefined) this.#told.set(name, note);
    }
    const count = this.#links.reduce((sum, { tools }) => sum + tools.length, 0);
    const many = `The MCP servers have ${count} tools together: the first ${maxAll} can be used, the others are left out.`;
    if (count > maxAll && this.#told.get("") !== many) notes.push(many);
    this.#told.set("", count > maxAll ? many : "");
    return notes;
  }
}

/** What the model and the user should know of a server. */
function noteOf({ spec: { name }, connected, problem, more, tools }: ServerLink): string | undefined {
  if (connected)
    return more
      ? `The MCP server ${name} has more than ${tools.length} tools (${maxTools} at most are taken): the others are left out.`
      : undefined;
  if (problem === undefined) return `The MCP server ${name} is not ready yet; its tools can be used once it is.`;
  if (problem.startsWith("The MCP server ")) return `${problem} Its tools cannot be used.`;
  return `The MCP server ${name} cannot be reached, so its tools cannot be used: ${problem}`;
}

async function atMost(ms: number, work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort);
  try {
    signal.throwIfAborted();
    await Promise.race([work, promise]);
  } finally {
    promise.catch(() => {});
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}
