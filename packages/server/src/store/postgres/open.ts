import { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { newId } from "@sandpiper/wire";
import type { StorageQuotas } from "../../config/storage-quotas.ts";
import { DocumentCache } from "../sql/document-cache.ts";
import { createSqlStores } from "../sql/stores.ts";
import type { Store } from "../store.ts";
import type { Vault } from "../vault.ts";
import { describeAddress } from "./address.ts";
import { AppendQueue } from "./append-queue.ts";
import { connectFirst } from "./connect.ts";
import { Database, type DatabaseOptions } from "./database.ts";
import { createQueryBuilder, postgresDialect } from "./dialect.ts";
import { PostgresEventLog } from "./event-log.ts";
import { claimInstallation } from "./installation.ts";
import { Listener } from "./listener.ts";
import { migrate } from "./migrate.ts";
import { PostgresNodes } from "./nodes.ts";
import type { Notice } from "./notice.ts";
import { Notifier } from "./notifier.ts";
import { removeOrphans } from "./orphans.ts";
import { PostgresReader } from "./reader.ts";
import { PostgresSlots } from "./slots.ts";
import { PostgresWriter } from "./writer.ts";

/** How long the server uses a cached document that no notice has named, ms. */
const trustedAgeMs = 5_000;
/** How long the answer to a statement about leases may take, ms; a lease lasts 4 s. */
const leaseAnswerMs = 2_000;

/** Delay between two looks for records of followed logs that no notice has named, ms. */
const pollMs = 1_000;

export interface PostgresStoreOptions extends DatabaseOptions {
  /** The vault must have the key that encrypted the data. */
  vault: Vault;
  /** Id of this server's process in notices; default: a new id. */
  incarnation?: string;
  scheduler?: EventLoopScheduler;
  /** Default: no limits. */
  quotas?: StorageQuotas;
  /** Milliseconds since the epoch. */
  clock?: () => number;
}

/**
 * Opens the store in a PostgreSQL database, which several servers may share. Throws ConfigInvalid
 * when the database cannot be used: out of reach, refused, too old, of a newer version of
 * Sandpiper, or encrypted with another key.
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const installation = await prepareDatabase(options.url, options.vault);
  const { scheduler = new EventLoopScheduler(), clock = Date.now, vault, incarnation = newId() } = options;
  const quotas = options.quotas ?? { conversationBytes: 0, userBytes: 0 };
  const database = new Database(options);
  // Leases have connections of their own, because a busy pool must not delay the renewal of a
  // lease. After a connection has fallen silent, there is time for another one.
  const leases = new Database({ ...options, maxConnections: 2, answerMs: leaseAnswerMs });
  const reader = new PostgresReader(database);
  const notifier = new Notifier(database, incarnation, () => listener.hasPeers);
  const queue = new AppendQueue({ database, quotas, scheduler });
  const slots = new PostgresSlots(database, (kind, userId) => notifier.freed(kind, userId));
  let changes = 0;
  const onWrite = () => {
    changes++;
  };
  const writer = new PostgresWriter(database, quotas, onWrite);
  const maxAge = () => (listener.isTrusted ? trustedAgeMs : 0);
  const caches = { settings: new DocumentCache(maxAge), userSecrets: new DocumentCache(maxAge) };
  const events = new PostgresEventLog({
    reader,
    queue,
    clock,
    onAppend(conversationId, seq) {
      changes++;
      notifier.appended(conversationId, seq);
    },
  });
  const listener = new Listener({
    database,
    from: incarnation,
    onNotice({ logs = [], documents = [], slots: freed = [] }: Notice) {
      changes++;
      for (const [kind, userId] of documents)
        caches[kind === "settings" ? "settings" : "userSecrets"].forget(userId);
      for (const [conversationId, seq] of logs) events.feed.heard(conversationId, seq);
      for (const [kind, userId] of freed) slots.heard(kind, userId);
    },
    onGap() {
      changes++;
      for (const cache of Object.values(caches)) cache.forget();
      void events.feed.poll().catch(() => {});
    },
  });
  await listener.open();
  const poll = setInterval(() => {
    // A server that has just started has missed earlier notices.
    changes++;
    void events.feed.poll().catch(() => {});
  }, pollMs);
  poll.unref();
  const context = {
    ...{ reader, writer, vault, clock },
    ...{ build: createQueryBuilder(), dialect: postgresDialect },
  };
  const nodes = new PostgresNodes(leases, installation);
  const stores = createSqlStores(context, caches, () => nodes.self());
  const { conversations } = stores;
  const create = conversations.create.bind(conversations);
  conversations.create = (row, ...more) => events.following(row.id, create(row, ...more));
  return {
    ...stores,
    events,
    nodes,
    slots,
    settings: announced(stores.settings, (userId) => notifier.changed("settings", userId)),
    userSecrets: announced(stores.userSecrets, (userId) => notifier.changed("user_secrets", userId)),
    // Other servers may have written anything.
    version: () => (listener.isTrusted && !listener.hasPeers ? changes : ++changes),
    async close() {
      clearInterval(poll);
      await queue.close();
      await notifier.drained();
      await listener.close();
      await leases.close();
      await database.close();
    },
  };
}

/** Migrates the database and checks the vault's key. Returns the id of the installation. */
async function prepareDatabase(url: string, vault: Vault): Promise<string> {
  const address = describeAddress(url);
  const { client } = await connectFirst(url);
  try {
    await migrate(client, address);
    const installation = await claimInstallation(client, vault, address);
    await removeOrphans(client);
    return installation;
  } finally {
    await client.end().catch(() => {});
  }
}

/** Wraps a document store so that a change ends when the other servers have been told of it. */
function announced(store: Store["settings"], tell: (userId: string) => Promise<void>): Store["settings"] {
  return {
    get: (userId) => store.get(userId),
    async change(userId, change) {
      await store.change(userId, change);
      await tell(userId);
    },
  };
}
