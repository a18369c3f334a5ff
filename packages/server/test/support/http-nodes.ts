import { once } from "node:events";
import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { buildApp } from "../../src/http/app.ts";
import { Passes } from "../../src/http/forwarding/pass.ts";
import type { App, HttpServices } from "../../src/http/server/services.ts";
import type { SandboxLocation, SandboxRef } from "../../src/nodes/api.ts";
import type { NodeRow } from "../../src/store/node-store.ts";
import type { Store } from "../../src/store/store.ts";

/** Services that only the node that handles a request uses. */
const live = ["bash", "conversations", "sandboxes"] as const;
/** Methods that only read the store, which every node calls. */
const shared = new Set(["get", "reads", "search"]);

/** A node: a listener of its own over the services of one platform. */
export interface HttpNode {
  name: string;
  url: string;
  app: App;
  row: NodeRow;
  /** The live services that were used through this node. */
  used: string[];
  /** The URLs of the requests that came to this node. */
  asked: string[];
}

/**
 * Several nodes over one store: real listeners, routes, sockets and connections between them. Only
 * the ownership is a stub: `owners` says which node has a sandbox or shall create one, by name.
 */
export class HttpNodes {
  readonly nodes: HttpNode[] = [];
  readonly owners = new Map<SandboxRef, string>();
  /**
   * The owners that a node believes in where they differ from `owners`: the key is `<node>
   * <sandbox>`.
   */
  readonly beliefs = new Map<string, string>();
  readonly passKey = new Uint8Array(32).fill(7);

  static async start(
    services: HttpServices,
    store: Pick<Store, "conversations" | "startTasks">,
    names: readonly string[] = ["a", "b", "c"],
  ): Promise<HttpNodes> {
    const nodes = new HttpNodes();
    for (const name of names) await nodes.add(name, services, store);
    return nodes;
  }

  async add(
    name: string,
    services: HttpServices,
    { conversations, startTasks }: Pick<Store, "conversations" | "startTasks">,
    port = 0,
  ): Promise<HttpNode> {
    const used: string[] = [];
    const incarnation = `incarnation-of-${name}`;
    const locate = async (sandbox: SandboxRef): Promise<SandboxLocation> => {
      const owner = this.beliefs.get(`${name} ${String(sandbox)}`) ?? this.owners.get(sandbox);
      return owner === undefined || owner === name ? "here" : this.get(owner).row;
    };
    const app = buildApp({
      ...services,
      ...Object.fromEntries(
        live.map((key) => [key, noteUses(services[key], (use) => used.push(`${key}.${use}`))]),
      ),
      forwarding: {
        ownership: { incarnation, locate, nodeCount: 1 },
        passKey: this.passKey,
        conversations,
        startTasks,
        findShared: async () => undefined,
      },
    });
    await app.listen({ host: "127.0.0.1", port });
    const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
    const row = { incarnation, url, place: null, version: "1", isDraining: false };
    const asked: string[] = [];
    app.server.on("request", (incoming) => asked.push(incoming.url ?? ""));
    const node = { name, url, app, row, used, asked };
    const before = this.nodes.findIndex((one) => one.name === name);
    if (before >= 0) this.nodes[before] = node;
    else this.nodes.push(node);
    return node;
  }

  get(name: string): HttpNode {
    return this.nodes.find((node) => node.name === name)!;
  }

  /** Returns the names of the nodes that have used live services since the last call. */
  users(): string[] {
    return this.nodes.filter(({ used }) => used.splice(0).length > 0).map(({ name }) => name);
  }

  /** Returns the names of the nodes that have got a request since the last call. */
  asked(): string[] {
    return this.nodes.filter(({ asked }) => asked.splice(0).length > 0).map(({ name }) => name);
  }

  pass(to: string, sent: { method: string; url: string }, client = "203.0.113.9"): string {
    return new Passes(this.passKey).make({ node: this.get(to).row.incarnation, ...sent }, { client });
  }

  async close(): Promise<void> {
    await Promise.all(this.nodes.map(({ app }) => app.close()));
  }
}

function noteUses<T extends object>(service: T, note: (name: string) => void): T {
  return new Proxy(service, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown;
      if (typeof name === "string" && !shared.has(name)) note(name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Sends a request on a connection of its own, and resolves with the answer's head. */
export async function send(
  url: string,
  options: { method?: string; headers?: Record<string, string>; body?: string | Buffer } = {},
) {
  const { body, ...rest } = options;
  const [answer] = await once(request(url, { agent: false, ...rest }).end(body), "response");
  return answer as import("node:http").IncomingMessage;
}
