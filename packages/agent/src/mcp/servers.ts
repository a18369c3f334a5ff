import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { abortable } from "@sandpiper/core/abortable";
import type { Tool } from "../tools/tool.ts";
import { mcpTool } from "./mcp-tool.ts";
import { type OpenSession, ServerLink } from "./server-link.ts";
import type { ServerSpec } from "./server-spec.ts";
import type { ListedTool } from "./tool-list.ts";
import { ToolNames } from "./tool-names.ts";

/** Time that a run waits for new servers, ms. */
const waitMs = 10_000;

/** Tools of all servers (providers accept 128 in total), and characters of their texts. */
const maxAll = 100;
const maxAllText = 400_000;

export class McpConnections {
  readonly #open: OpenSession;
  readonly #names = new ToolNames();
  #links: ServerLink[] = [];
  /** Servers that a run has waited for, and the reported states by name. */
  readonly #waited = new WeakSet<ServerLink>();
  readonly #reported = new Map<string, State["kind"]>();
  #tools: { reserved: string; list: readonly Tool[] } | undefined;
  #used = false;

  constructor(open: OpenSession) {
    this.#open = open;
  }

  /**
   * Connects to these servers and disconnects others. Resolves when all are connected or failed,
   * after ten seconds at most; the rest continues. Returns sentences about new problems. Throws the
   * signal's reason.
   */
  async prepare(specs: readonly ServerSpec[], signal: AbortSignal): Promise<string[]> {
    this.#take(specs);
    this.#used = true;
    const wanted = this.#links.filter((link) => !link.connected && link.pauseMs === 0);
    const fresh = wanted.filter((link) => !this.#waited.has(link));
    for (const link of fresh) this.#waited.add(link);
    const attempts = wanted.map((link) => ({ link, done: link.connect().catch(() => {}) }));
    const waitedFor = attempts.filter(({ link }) => fresh.includes(link)).map(({ done }) => done);
    const late = delay(waitMs, undefined, { ref: false });
    if (waitedFor.length > 0) await abortable(Promise.race([Promise.all(waitedFor), late]), signal);
    return this.#notes();
  }

  /** The callable tools; `reserved` are taken names. Retries failed servers in the background. */
  tools(reserved: ReadonlySet<string>): readonly Tool[] {
    for (const link of this.#used ? this.#links : [])
      if (link.problem !== undefined && link.tools.length === 0 && link.pauseMs === 0)
        void link.connect().catch(() => {});
    const key = [...reserved].join(" ");
    if (this.#tools?.reserved === key) return this.#tools.list;
    const list = this.#taken().map(({ link, listed }) => {
      return mcpTool(this.#names.get(link.spec.name, listed.name, reserved), listed, link);
    });
    this.#tools = { reserved: key, list };
    return list;
  }

  get connected(): boolean {
    return this.#links.some((link) => link.connected);
  }

  /** Disconnects servers with `keep_alive: false`, or all. Their tools stay known. */
  close({ all }: { all: boolean }): void {
    this.#used = false;
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
      this.#reported.delete(link.spec.name);
    }
    this.#tools = undefined;
  }

  /** The tools that fit into a prompt, in server order. */
  #taken(): { link: ServerLink; listed: ListedTool }[] {
    let room = maxAllText;
    const all = this.#links.flatMap((link) => link.tools.map((listed) => ({ link, listed })));
    return all.slice(0, maxAll).filter(({ listed }) => {
      room -= listed.size;
      return room >= 0;
    });
  }

  #notes(): string[] {
    const states = this.#links.map((link): [string, State | undefined] => [link.spec.name, getState(link)]);
    const count = this.#links.reduce((sum, { tools }) => sum + tools.length, 0);
    const taken = this.#taken().length;
    const note = `The MCP servers have ${count} tools together: ${taken} of them can be used, the others are left out.`;
    states.push(["", count > taken ? { kind: "many", note } : undefined]);
    return states.flatMap(([name, state]) => {
      const before = this.#reported.get(name);
      if (state) this.#reported.set(name, state.kind);
      else this.#reported.delete(name);
      return state && state.kind !== before ? [state.note] : [];
    });
  }
}

/** A problem to report about a server. */
interface State {
  kind: "late" | "failed" | "many";
  note: string;
}

function getState({ spec: { name }, connected, problem, more, tools }: ServerLink): State | undefined {
  const of = (kind: State["kind"], note: string) => ({ kind, note });
  if (connected && !more) return undefined;
  if (connected)
    return of("many", `The MCP server ${name} has too many tools: the first ${tools.length} are taken.`);
  if (problem === undefined)
    return of("late", `The MCP server ${name} is not ready yet; its tools can be used once it is.`);
  // Configuration problems already name the server.
  if (problem.startsWith("The MCP server ")) return of("failed", `${problem} Its tools cannot be used.`);
  return of("failed", `The MCP server ${name} cannot be reached, so its tools cannot be used: ${problem}`);
}
