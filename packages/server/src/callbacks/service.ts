import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import {
  type CallbackInfo,
  type CallbackProcessor,
  hexId,
  isoTime,
  maxCallbacks,
  newId,
  parseId,
} from "@sandpiper/wire";
import type { CallbackRow, StoredProcessor } from "../store/callback-store.ts";
import { reportDeletion } from "./agent-server.ts";
import type { Callbacks } from "./api.ts";
import { forgotten, Lane, type LaneDependencies } from "./delivery-worker.ts";
import type { Endpoint } from "./endpoint.ts";

export interface CallbackDependencies
  extends Omit<LaneDependencies, "slots" | "server" | "conversationInfo" | "collectMs" | "giveUpMs"> {
  /** SANDPIPER_WEBHOOK_URL, SANDPIPER_WEBHOOK_SECRET and SANDPIPER_WEBHOOK_FORMAT. */
  server?: Endpoint | undefined;
  /** For the format `agent-server`: a conversation as it is reported. */
  conversationInfo?: (id: string) => object | undefined;
  /** Default 1 s. */
  collectMs?: number;
  /** Default a day. */
  giveUpMs?: number;
}

/** Deliveries at once: over all, of one owner, and of one owner to one address. */
const limits = [64, 16, 4];

/** Callbacks in the store, and a lane for each that has something to deliver. */
export class CallbackService implements Callbacks {
  readonly #deps: CallbackDependencies;
  readonly #laneDeps: LaneDependencies;
  /** By conversation, then by callback. */
  readonly #lanes = new Map<string, Map<string, Lane>>();
  readonly #additions = new KeyedMutex();
  /** Deletions that are being told. */
  readonly #farewells = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();
  #unfollow = () => {};
  #isClosed = false;

  constructor(deps: CallbackDependencies) {
    const { collectMs = 1_000, giveUpMs = 24 * 3_600_000, server, conversationInfo = () => undefined } = deps;
    this.#deps = deps;
    this.#laneDeps = {
      ...deps,
      server,
      conversationInfo,
      collectMs,
      giveUpMs,
      slots: new KeyedSemaphore(limits),
    };
  }

  /** Goes on with what a former process left undelivered. */
  async open(): Promise<void> {
    const { callbacks, events, server } = this.#deps;
    if (server) await callbacks.coverConversations();
    else await callbacks.uncoverConversations();
    this.#unfollow = events.followAll((conversationId, records) => this.#take(conversationId, records));
    for (const { id, conversationId } of callbacks.behind()) this.#lane(conversationId, id).poke(0, true);
  }

  /** Breaks off deliveries; the next start repeats them. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#unfollow();
    this.#closing.abort(new Error("The server is ending."));
    const lanes = [...this.#lanes.values()].flatMap((some) => [...some.values()]);
    await Promise.all([...this.#farewells, ...lanes.map((lane) => lane.close())]);
  }

  check(processors: readonly CallbackProcessor[]): void {
    if (processors.length > maxCallbacks) throw tooMany();
    for (const processor of processors)
      if (processor.kind === "WebhookCallbackProcessor") this.#deps.outbound.check(processor.url);
  }

  async register(
    userId: string,
    conversationId: string,
    processors: readonly CallbackProcessor[],
  ): Promise<void> {
    this.check(processors);
    const { callbacks, server } = this.#deps;
    if (callbacks.ofConversation(conversationId).length > 0) return;
    const own = processors.flatMap((processor) => this.#row(userId, conversationId, processor, 1) ?? []);
    const rows = server ? [serverRow(userId, conversationId), ...own] : own;
    await callbacks.create(rows);
  }

  async drop(conversationId: string): Promise<void> {
    await this.#deps.callbacks.removeOf(conversationId);
    await Promise.all([...(this.#lanes.get(conversationId)?.values() ?? [])].map((lane) => lane.close()));
  }

  changed(conversationId: string): void {
    if (this.#deps.server?.format !== "agent-server") return;
    // The operator's own callback has the conversation's id.
    const row = this.#deps.callbacks.get(conversationId);
    if (row?.status === "ACTIVE" && row.nextSeq > 1) this.#lane(conversationId, row.id).change();
  }

  farewell(conversationId: string): () => void {
    const { server, callbacks, outbound, logger } = this.#deps;
    const row = server?.format === "agent-server" ? callbacks.get(conversationId) : undefined;
    // Nobody was told of it at all.
    if (!server || row?.status !== "ACTIVE" || row.nextSeq === 1) return () => {};
    const info = this.#laneDeps.conversationInfo(conversationId);
    return () => {
      if (!info || this.#isClosed) return;
      const told = this.#laneDeps.slots
        .acquire(["all", "farewells"], this.#closing.signal)
        .then(async (leave) => {
          const outcome = await reportDeletion(outbound, server, info, this.#closing.signal).finally(leave);
          if (!outcome.ok)
            logger.warn(
              { conversation: hexId(conversationId), detail: outcome.detail },
              "a deletion could not be told",
            );
        })
        .finally(() => this.#farewells.delete(told));
      this.#farewells.add(told);
    };
  }

  list(conversationId: string): CallbackInfo[] {
    return this.#deps.callbacks.ofConversation(conversationId).map((row) => this.#present(row));
  }

  async add(userId: string, conversationId: string, processor: CallbackProcessor): Promise<CallbackInfo> {
    this.check([processor]);
    const { callbacks, events } = this.#deps;
    const row = this.#row(userId, conversationId, processor, events.lastSeq(conversationId) + 1);
    if (!row)
      throw new PlatformError(
        "InvalidParameter",
        "Titles are always set: SetTitleCallbackProcessor cannot be added.",
      );
    return this.#additions.run(conversationId, async () => {
      const own = callbacks
        .ofConversation(conversationId)
        .filter((other) => other.processor.kind !== "ServerWebhook");
      if (own.length >= maxCallbacks) throw tooMany();
      await callbacks.create([row]);
      return this.#present(row);
    });
  }

  async retry(conversationId: string, id: string): Promise<CallbackInfo> {
    const row = this.#find(conversationId, id);
    await this.#deps.callbacks.update(row.id, forgotten);
    this.#lane(conversationId, row.id).poke(0, true);
    return this.#present(this.#find(conversationId, id));
  }

  async remove(conversationId: string, id: string): Promise<void> {
    const row = this.#find(conversationId, id);
    if (row.processor.kind === "ServerWebhook") throw notFound();
    await this.#deps.callbacks.remove(row.id);
    await this.#lanes.get(conversationId)?.get(row.id)?.close();
  }

  #take(conversationId: string, records: readonly LogRecord[]): void {
    const urgent = records.some(isEndOfRun);
    for (const { id } of this.#deps.callbacks.activeOf(conversationId))
      this.#lane(conversationId, id).poke(records.length, urgent);
  }

  #lane(conversationId: string, id: string): Lane {
    const lanes = this.#lanes.get(conversationId) ?? new Map<string, Lane>();
    this.#lanes.set(conversationId, lanes);
    const known = lanes.get(id);
    if (known) return known;
    const lane = new Lane(this.#laneDeps, id, conversationId, () => {
      lanes.delete(id);
      if (lanes.size === 0 && this.#lanes.get(conversationId) === lanes) this.#lanes.delete(conversationId);
    });
    lanes.set(id, lane);
    if (this.#isClosed) void lane.close();
    return lane;
  }

  #row(
    userId: string,
    conversationId: string,
    processor: CallbackProcessor,
    nextSeq: number,
  ): CallbackRow | undefined {
    if (processor.kind === "SetTitleCallbackProcessor") return undefined;
    if (processor.kind === "LoggingCallbackProcessor") {
      return { ...fresh(userId, conversationId, { kind: processor.kind }), nextSeq };
    }
    const kinds = processor.kinds?.length ? [...new Set(processor.kinds)] : null;
    const stored = { kind: processor.kind, url: processor.url, kinds };
    if (processor.secret) this.#deps.registerSecret(processor.secret);
    return { ...fresh(userId, conversationId, stored), nextSeq, secret: processor.secret ?? null };
  }

  #find(conversationId: string, id: string): CallbackRow {
    const known = parseId(id);
    const row = known === undefined ? undefined : this.#deps.callbacks.get(known);
    if (row?.conversationId !== conversationId) throw notFound();
    return row;
  }

  #present(row: CallbackRow): CallbackInfo {
    const { processor } = row;
    const isHook = processor.kind === "WebhookCallbackProcessor";
    return {
      id: hexId(row.id),
      kind: processor.kind === "LoggingCallbackProcessor" ? processor.kind : "WebhookCallbackProcessor",
      url: isHook ? processor.url : null,
      kinds: isHook ? (processor.kinds as CallbackInfo["kinds"]) : null,
      secret_set: isHook && row.secret !== null,
      server_wide: processor.kind === "ServerWebhook",
      status: row.status,
      pending: this.#deps.events.lastSeq(row.conversationId) >= row.nextSeq,
      attempts: row.attempts,
      last_error: row.detail,
      next_attempt_at: row.nextAttemptAt === null ? null : isoTime(row.nextAttemptAt),
      created_at: isoTime(row.createdAt),
    };
  }
}

function fresh(userId: string, conversationId: string, processor: StoredProcessor): CallbackRow {
  return {
    id: newId(),
    userId,
    conversationId,
    processor,
    secret: null,
    ...forgotten,
    nextSeq: 1,
    createdAt: Date.now(),
  };
}

/** A conversation has one of these at most, so its id serves for both. */
function serverRow(userId: string, conversationId: string): CallbackRow {
  return { ...fresh(userId, conversationId, { kind: "ServerWebhook" }), id: conversationId };
}

function isEndOfRun({ event }: LogRecord): boolean {
  return (
    event.kind === "ConversationStateUpdateEvent" &&
    event.key === "execution_status" &&
    event.value !== "running"
  );
}

function notFound(): PlatformError {
  return new PlatformError("CallbackNotFound", "Callback not found");
}

function tooMany(): PlatformError {
  return new PlatformError(
    "TooManyCallbacks",
    `A conversation has ${maxCallbacks} callbacks at most: remove one first.`,
  );
}
