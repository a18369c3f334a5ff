import pg from "pg";
import type { Database } from "./database.ts";
import { channel, decodeNotice, type Notice } from "./notice.ts";

/** Delay between two probes, and after a broken connection, ms. */
const probeMs = 1_000;
/** Age of the last arrived probe above which the listener counts notifications as lost, ms. */
const trustedMs = 3_000;

/** Silence after which another server counts as gone, ms. Each server probes every second. */
const peerMs = 10_000;

export interface ListenerParts {
  database: Database;
  /** Names this server in notices. */
  from: string;
  /** The listener calls this for each notice of another server. */
  onNotice(notice: Notice): void;
  /** The listener calls this when it may have missed notices. */
  onGap(): void;
}

/**
 * Listens to the notices of other servers on one connection of its own. A probe to itself finds out
 * whether notifications arrive: a pooler in front of the database, for example, may drop them.
 */
export class Listener {
  readonly #parts: ListenerParts;
  #client: pg.Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #probe = 0;
  #heardAt = Number.NEGATIVE_INFINITY;
  #peerAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;
  #isTicking = false;

  constructor(parts: ListenerParts) {
    this.#parts = parts;
  }

  /** Whether notices of other servers arrive. */
  get isTrusted(): boolean {
    return performance.now() - this.#heardAt < trustedMs;
  }

  /** Whether a notice of another server has arrived within the last ten seconds. */
  get hasPeers(): boolean {
    return performance.now() - this.#peerAt < peerMs;
  }

  /** Begins to listen, and tries again while the database is away. */
  async open(): Promise<void> {
    await this.#tick();
    if (this.#isClosed) return;
    this.#timer = setInterval(() => void this.#tick(), probeMs);
    this.#timer.unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#client?.end().catch(() => {});
  }

  async #tick(): Promise<void> {
    if (this.#isTicking || this.#isClosed) return;
    this.#isTicking = true;
    try {
      const client = this.#client ?? (await this.#connect());
      const probe = JSON.stringify({ from: this.#parts.from, probe: ++this.#probe } satisfies Notice);
      await client.query("SELECT pg_notify($1, $2)", [channel, probe]);
    } catch {
      this.#drop();
    } finally {
      this.#isTicking = false;
    }
  }

  async #connect(): Promise<pg.Client> {
    const client = new pg.Client(this.#parts.database.settings);
    client.on("error", () => this.#drop(client));
    client.on("end", () => this.#drop(client));
    client.on("notification", ({ payload = "" }) => this.#hear(payload));
    await client.connect();
    await client.query(`LISTEN ${channel}`);
    if (this.#isClosed) {
      await client.end();
      throw new Error("The store is closed.");
    }
    this.#client = client;
    this.#parts.onGap();
    return client;
  }

  #drop(client = this.#client): void {
    if (client !== this.#client || !client) return;
    this.#client = undefined;
    this.#heardAt = Number.NEGATIVE_INFINITY;
    client.end().catch(() => {});
  }

  #hear(text: string): void {
    const notice = decodeNotice(text);
    if (!notice) return;
    if (notice.from === this.#parts.from) {
      if (notice.probe === this.#probe) this.#heardAt = performance.now();
      return;
    }
    this.#peerAt = performance.now();
    if (notice.probe === undefined) this.#parts.onNotice(notice);
  }
}
