import { type Link, openLink } from "../../support/nodes/link.ts";
import { type RoundRobin, startRoundRobin } from "../../support/nodes/round-robin.ts";
import { caller, type TestPlatform } from "../../support/platform.ts";
import { type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { type ServerProcess, startServerProcess } from "../../support/server-process.ts";
import { StoredLogs } from "./stored-logs.ts";

/** A node of the cluster, which may be dead. */
interface Node {
  link: Link;
  process: ServerProcess | undefined;
  isStopped: boolean;
}

interface NodeOutput {
  node: number;
  url: string;
  text: string;
}

const outputOf = (index: number, { url, output }: ServerProcess): NodeOutput => ({
  node: index + 1,
  url,
  text: output(),
});

export interface ClusterOptions {
  dataDir: string;
  nodes: number;
  /** Variables of each node. */
  env: Record<string, string>;
}

type ClusterParts = Pick<Cluster, "postgres" | "database" | "proxy">;

/** Servers on one PostgreSQL database behind a round-robin proxy, all in processes of their own. */
export class Cluster {
  readonly #options: ClusterOptions;
  readonly #nodes: Node[] = [];
  readonly #ended: NodeOutput[] = [];
  readonly postgres: PostgresServer;
  /** The address of the database without a link between. */
  readonly database: string;
  readonly proxy: RoundRobin;
  /** Reads the database directly. */
  readonly logs: StoredLogs;

  private constructor(options: ClusterOptions, parts: ClusterParts) {
    this.#options = options;
    ({ postgres: this.postgres, database: this.database, proxy: this.proxy } = parts);
    this.logs = new StoredLogs(parts.database);
  }

  static async start(options: ClusterOptions): Promise<Cluster> {
    const settings = { fsync: "off", full_page_writes: "off", max_connections: "300" };
    const postgres = await startPostgres(settings);
    const database = await postgres.createDatabase();
    const proxy = await startRoundRobin();
    const cluster = new Cluster(options, { postgres, database, proxy });
    for (let index = 0; index < options.nodes; index++) {
      const link = await openLink(postgres.port);
      cluster.#nodes.push({ link, process: undefined, isStopped: false });
      await cluster.startNode(index);
      if (index === 0) await cluster.logs.noteOwners();
    }
    return cluster;
  }

  get size(): number {
    return this.#nodes.length;
  }

  /** Variables for a program that uses the cluster's data while no fault happens. */
  get env(): Record<string, string> {
    return { SANDPIPER_DATA: this.#options.dataDir, SANDPIPER_DATABASE_URL: this.database };
  }

  /** Returns a function that sends requests with a key through the proxy. */
  caller(key: string): TestPlatform["call"] {
    return caller(this.proxy.url, key);
  }

  link(index: number): Link {
    return this.#nodes[index]!.link;
  }

  get dataDir(): string {
    return this.#options.dataDir;
  }

  /** Address of a node. Throws when it is dead. */
  addressOf(index: number): string {
    return this.#nodes[index]!.process!.url;
  }

  async startNode(index: number): Promise<void> {
    const node = this.#nodes[index]!;
    node.process = await startServerProcess(this.#options.dataDir, {
      ...this.#options.env,
      SANDPIPER_DATABASE_URL: node.link.url(this.database),
      SANDPIPER_PUBLIC_URL: this.proxy.url,
    });
    this.#list();
  }

  /** Ends a node. The proxy finds out as it would in production: a dead node does not listen. */
  async endNode(index: number, signal: NodeJS.Signals): Promise<void> {
    const node = this.#nodes[index]!;
    const ending = node.process!.end(signal);
    if (node.isStopped) this.resume(index);
    await ending;
    this.#ended.push(outputOf(index, node.process!));
    node.process = undefined;
    this.#list();
  }

  /**
   * Freezes a node, and takes it out of the proxy's list as a health probe of a load balancer
   * would.
   */
  stop(index: number): void {
    const node = this.#nodes[index]!;
    node.isStopped = true;
    node.process!.child.kill("SIGSTOP");
    this.#list();
  }

  resume(index: number): void {
    const node = this.#nodes[index]!;
    node.isStopped = false;
    node.process!.child.kill("SIGCONT");
    this.#list();
  }

  /** Returns the lines that all nodes have printed, each after the number of its node. */
  lines(): string[] {
    const present = this.#nodes.flatMap(({ process }, index) => (process ? [outputOf(index, process)] : []));
    return [...this.#ended, ...present].flatMap(({ node, url, text }) =>
      text.split("\n").map((line) => `node ${node} ${url} ${line}`),
    );
  }

  /** Returns the lines since a time (milliseconds since the epoch), in the order of their times. */
  linesSince(time: number): string[] {
    const timed = this.lines().map((line) => ({
      line,
      at: Date.parse(/"time":"([^"]+)"/.exec(line)?.[1] ?? ""),
    }));
    return timed
      .filter(({ at }) => at >= time)
      .sort((one, other) => one.at - other.at)
      .map(({ line, at }) => `${new Date(at).toISOString()} ${line}`);
  }

  /** Ends the proxy, the nodes, their links and PostgreSQL. */
  async close(): Promise<void> {
    for (const [index, node] of this.#nodes.entries()) {
      node.link.restore();
      if (node.process) await this.endNode(index, "SIGTERM");
      await node.link.close();
    }
    await this.logs.close();
    await this.proxy.close();
    await this.postgres.remove();
  }

  #list(): void {
    this.proxy.nodes = this.#nodes.flatMap(({ process, isStopped }) =>
      process && !isStopped ? [process.url] : [],
    );
  }
}
