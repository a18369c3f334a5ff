import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import {
  type CallbackInfo,
  type CallbackProcessor,
  hexId,
  isoTime,
  maxCallbacks,
  newId,
  parseId,
} from "@sandpiper/wire";
import type { CallbackRow, CallbackStore, StoredProcessor } from "../store/callback-store.ts";
import type { EventLog } from "../store/event-log.ts";
import type { Callbacks } from "./api.ts";
import { DeliveryWorker, type DeliveryWorkerDeps, noFailure } from "./delivery-worker.ts";
import type { CallbackSender } from "./sender.ts";

export interface CallbackServiceDeps {
  callbacks: CallbackStore;
  events: EventLog;
  sender: CallbackSender;
  logger: Logger;
  /** Default 1 s; see `DeliveryWorkerDeps`. */
  batchDelayMs?: number;
  /** Default a day. */
  giveUpMs?: number;
}

/** Callbacks in the store, with a worker for each that has pending events. */
export class CallbackService implements Callbacks {
  readonly #deps: CallbackServiceDeps;
  readonly #workerDeps: DeliveryWorkerDeps;
  /** By conversation, then by callback. */
  readonly #workers = new Map<string, Map<string, DeliveryWorker>>();
  readonly #additions = new KeyedMutex();
  /** Deletions that are being reported. */
  readonly #deletions = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();
  #unfollow = () => {};
  #isClosed = false;

  constructor(deps: CallbackServiceDeps) {
    const { callbacks, events, sender, logger, batchDelayMs = 1_000, giveUpMs = 24 * 3_600_000 } = deps;
    this.#deps = deps;
    this.#workerDeps = { callbacks, events, sender, logger, batchDelayMs, giveUpMs };
  }

  /** Resumes undelivered events. */
  async open(): Promise<void> {
    const { callbacks, events, sender } = this.#deps;
    if (sender.server) await callbacks.addServerWebhooks();
    else await callbacks.removeServerWebhooks();
    this.#unfollow = events.followAll((conversationId, records) => this.#notify(conversationId, records));
    for (const { id, conversationId } of callbacks.listPending())
      this.#worker(conversationId, id).notifyRecords(0, true);
  }

  /** Aborts deliveries; the next start repeats them. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#unfollow();
    this.#closing.abort(new Error("The server is ending."));
    const workers = [...this.#workers.values()].flatMap((some) => [...some.values()]);
    await Promise.all([...this.#deletions, ...workers.map((worker) => worker.close())]);
  }

  check(processors: readonly CallbackProcessor[]): void {
    if (processors.length > maxCallbacks)
      throw new PlatformError("CallbackLimitReached", { max: maxCallbacks });
    for (const processor of processors)
      if (processor.kind === "WebhookCallbackProcessor") this.#deps.sender.check(processor.url);
  }

  async register(
    userId: string,
    conversationId: string,
    processors: readonly CallbackProcessor[],
  ): Promise<void> {
    this.check(processors);
    const { callbacks, sender } = this.#deps;
    if (callbacks.listByConversation(conversationId).length > 0) return;
    const own = processors.flatMap((processor) => this.#row(userId, conversationId, processor, 1) ?? []);
    const rows = sender.server ? [serverRow(userId, conversationId), ...own] : own;
    await callbacks.create(rows);
  }

  async drop(conversationId: string): Promise<void> {
    await this.#deps.callbacks.removeByConversation(conversationId);
    await Promise.all(
      [...(this.#workers.get(conversationId)?.values() ?? [])].map((worker) => worker.close()),
    );
  }

  notifyChange(conversationId: string): void {
    if (this.#deps.sender.server?.format !== "agent-server") return;
    // The operator's callback has the conversation's id.
    const row = this.#deps.callbacks.get(conversationId);
    if (row?.status === "ACTIVE" && row.nextSeq > 1) this.#worker(conversationId, row.id).notifyChange();
  }

  notifyDeletion(conversationId: string): () => void {
    const { callbacks, sender, logger } = this.#deps;
    const row = sender.server?.format === "agent-server" ? callbacks.get(conversationId) : undefined;
    // The endpoint does not know the conversation yet.
    if (row?.status !== "ACTIVE" || row.nextSeq === 1) return () => {};
    const sendReport = sender.prepareDeletion(conversationId);
    return () => {
      if (!sendReport || this.#isClosed) return;
      const report = sendReport(this.#closing.signal)
        .then((outcome) => {
          if (!outcome.ok)
            logger.warn(
              { conversation: hexId(conversationId), detail: outcome.detail },
              "a deletion could not be reported",
            );
        })
        .finally(() => this.#deletions.delete(report));
      this.#deletions.add(report);
    };
  }

  list(conversationId: string): CallbackInfo[] {
    return this.#deps.callbacks.listByConversation(conversationId).map((row) => this.#present(row));
  }

  async add(userId: string, conversationId: string, processor: CallbackProcessor): Promise<CallbackInfo> {
    this.check([processor]);
    const { callbacks, events } = this.#deps;
    const row = this.#row(userId, conversationId, processor, events.lastSeq(conversationId) + 1);
    if (!row) throw new PlatformError("TitleCallbackAdded");
    return this.#additions.run(conversationId, async () => {
      const own = callbacks
        .listByConversation(conversationId)
        .filter((other) => other.processor.kind !== "ServerWebhook");
      if (own.length >= maxCallbacks) throw new PlatformError("CallbackLimitReached", { max: maxCallbacks });
      await callbacks.create([row]);
      return this.#present(row);
    });
  }

  async retry(conversationId: string, id: string): Promise<CallbackInfo> {
    const row = this.#find(conversationId, id);
    await this.#deps.callbacks.update(row.id, noFailure);
    this.#worker(conversationId, row.id).notifyRecords(0, true);
    return this.#present(this.#find(conversationId, id));
  }

  async remove(conversationId: string, id: string): Promise<void> {
    const row = this.#find(conversationId, id);
    if (row.processor.kind === "ServerWebhook") throw new PlatformError("CallbackUnknown");
    await this.#deps.callbacks.remove(row.id);
    await this.#workers.get(conversationId)?.get(row.id)?.close();
  }

  #notify(conversationId: string, records: readonly LogRecord[]): void {
    const urgent = records.some(isEndOfRun);
    for (const { id } of this.#deps.callbacks.listActive(conversationId))
      this.#worker(conversationId, id).notifyRecords(records.length, urgent);
  }

  #worker(conversationId: string, id: string): DeliveryWorker {
    const workers = this.#workers.get(conversationId) ?? new Map<string, DeliveryWorker>();
    this.#workers.set(conversationId, workers);
    const known = workers.get(id);
    if (known) return known;
    const worker = new DeliveryWorker(this.#workerDeps, id, conversationId, () => {
      workers.delete(id);
      if (workers.size === 0 && this.#workers.get(conversationId) === workers)
        this.#workers.delete(conversationId);
    });
    workers.set(id, worker);
    if (this.#isClosed) void worker.close();
    return worker;
  }

  #row(
    userId: string,
    conversationId: string,
    processor: CallbackProcessor,
    nextSeq: number,
  ): CallbackRow | undefined {
    if (processor.kind === "SetTitleCallbackProcessor") return undefined;
    if (processor.kind === "LoggingCallbackProcessor") {
      return { ...createRow(userId, conversationId, { kind: processor.kind }), nextSeq };
    }
    const kinds = processor.kinds?.length ? [...new Set(processor.kinds)] : null;
    const stored = { kind: processor.kind, url: processor.url, kinds };
    if (processor.secret) this.#deps.sender.registerSecret(processor.secret);
    return { ...createRow(userId, conversationId, stored), nextSeq, secret: processor.secret ?? null };
  }

  #find(conversationId: string, id: string): CallbackRow {
    const known = parseId(id);
    const row = known === undefined ? undefined : this.#deps.callbacks.get(known);
    if (row?.conversationId !== conversationId) throw new PlatformError("CallbackUnknown");
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

function createRow(userId: string, conversationId: string, processor: StoredProcessor): CallbackRow {
  return {
    id: newId(),
    userId,
    conversationId,
    processor,
    secret: null,
    ...noFailure,
    nextSeq: 1,
    createdAt: Date.now(),
  };
}

/** A conversation has at most one ServerWebhook, which has the conversation's id. */
function serverRow(userId: string, conversationId: string): CallbackRow {
  return { ...createRow(userId, conversationId, { kind: "ServerWebhook" }), id: conversationId };
}

function isEndOfRun({ event }: LogRecord): boolean {
  return (
    event.kind === "ConversationStateUpdateEvent" &&
    event.key === "execution_status" &&
    event.value !== "running"
  );
}
