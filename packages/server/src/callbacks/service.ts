import { setTimeout as sleep } from "node:timers/promises";
import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import { type CallbackInfo, type CallbackProcessor, hexId, maxCallbacks, parseId } from "@sandpiper/wire";
import type { CallbackRow } from "../store/callback-store.ts";
import type { SandboxScope } from "../store/sandbox-scope.ts";
import type { Store } from "../store/store.ts";
import type { Callbacks } from "./api.ts";
import { DeliveryWorker, type DeliveryWorkerDeps, noFailure } from "./delivery-worker.ts";
import { ConversationNews } from "./news.ts";
import { createRow, present, serverRow } from "./rows.ts";
import type { CallbackSender } from "./sender.ts";

export interface CallbackServiceDeps {
  store: Pick<Store, "callbacks" | "events">;
  sender: CallbackSender;
  logger: Logger;
  /**
   * Which sandboxes this node delivers for; absent in a server that is alone, which delivers for
   * all.
   */
  places?: CallbackPlaces | undefined;
  /** Default 1 s; see `DeliveryWorkerDeps`. */
  batchDelayMs?: number;
  /** Default a day. */
  giveUpMs?: number;
}

/** Tells which sandboxes this node owns, and the sandboxes of conversations. */
export interface CallbackPlaces {
  /** Returns the sandbox of a conversation; undefined when there is no such conversation. */
  findSandbox(conversationId: string): Promise<string | undefined>;
  /** Whether this node owns a sandbox. */
  owns(sandboxId: string): boolean;
}

/** How long a release waits for the end of deliveries, ms. */
const maxEndMs = 2_000;

/** Callbacks in the store, with a worker for each that has pending events. */
export class CallbackService implements Callbacks {
  readonly #deps: CallbackServiceDeps;
  readonly #workerDeps: DeliveryWorkerDeps;
  /** By conversation, then by callback. */
  readonly #workers = new Map<string, Map<string, DeliveryWorker>>();
  /** The sandboxes of conversations with workers; empty in a server that is alone. */
  readonly #sandboxes = new Map<string, string>();
  readonly #additions = new KeyedMutex();
  /** Deletions that are being reported. */
  readonly #deletions = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();
  readonly #news: ConversationNews;
  #unfollow = () => {};
  #isClosed = false;

  constructor(deps: CallbackServiceDeps) {
    const { store, sender, logger, batchDelayMs = 1_000, giveUpMs = 24 * 3_600_000 } = deps;
    const { callbacks, events } = store;
    this.#deps = deps;
    this.#workerDeps = { callbacks, events, sender, logger, batchDelayMs, giveUpMs };
    this.#news = new ConversationNews({
      find: async (conversationId) => {
        const active = await callbacks.listActive(conversationId);
        return active.length > 0 && (await this.#isHere(conversationId)) ? active : [];
      },
      tell: (conversationId, { id, nextSeq }, { records, urgent, changed }) => {
        if (records > 0) this.#worker(conversationId, id).notifyRecords(records, urgent);
        // The operator's callback has the conversation's id; its endpoint must know it already.
        if (changed && id === conversationId && nextSeq > 1) this.#worker(conversationId, id).notifyChange();
      },
      logger,
      signal: this.#closing.signal,
    });
  }

  /** Follows what this server appends, and sets up the operator's webhook as configured. */
  async open(): Promise<void> {
    const { store, sender } = this.#deps;
    const { callbacks, events } = store;
    if (sender.server) await callbacks.addServerWebhooks();
    else await callbacks.removeServerWebhooks();
    this.#unfollow = events.followAll((conversationId, records) => this.#notify(conversationId, records));
  }

  /**
   * Delivers the events that an earlier server or another node has left undelivered in sandboxes.
   */
  async adopt(scope: SandboxScope): Promise<void> {
    for (const { id, conversationId } of await this.#deps.store.callbacks.listPending(scope))
      if (!this.#workers.get(conversationId)?.has(id) && (await this.#isHere(conversationId)))
        this.#worker(conversationId, id).notifyRecords(0, true);
  }

  async release(sandboxIds: readonly string[]): Promise<void> {
    const ended: Promise<void>[] = [];
    for (const [conversationId, sandboxId] of this.#sandboxes) {
      if (!sandboxIds.includes(sandboxId)) continue;
      const workers = this.#workers.get(conversationId)?.values() ?? [];
      ended.push(...[...workers].map((worker) => worker.close()));
      this.#workers.delete(conversationId);
      this.#sandboxes.delete(conversationId);
    }
    await Promise.race([Promise.all(ended), sleep(maxEndMs, undefined, { ref: false })]);
  }

  /** Aborts deliveries; the next start repeats them. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#unfollow();
    this.#closing.abort(new Error("The server is ending."));
    await this.#news.idle();
    const workers = [...this.#workers.values()].flatMap((some) => [...some.values()]);
    await Promise.all([...this.#deletions, ...workers.map((worker) => worker.close())]);
  }

  check(processors: readonly CallbackProcessor[]): void {
    if (processors.length > maxCallbacks)
      throw new PlatformError("CallbackLimitReached", { max: maxCallbacks });
    for (const processor of processors)
      if (processor.kind === "WebhookCallbackProcessor") this.#deps.sender.check(processor.url);
  }

  rowsOf(userId: string, conversationId: string, processors: readonly CallbackProcessor[]): CallbackRow[] {
    this.check(processors);
    const own = processors.flatMap((processor) => this.#row(userId, conversationId, processor, 1) ?? []);
    return this.#deps.sender.server ? [serverRow(userId, conversationId), ...own] : own;
  }

  async drop(conversationId: string): Promise<void> {
    await this.#deps.store.callbacks.removeByConversation(conversationId);
    await Promise.all(
      [...(this.#workers.get(conversationId)?.values() ?? [])].map((worker) => worker.close()),
    );
  }

  notifyChange(conversationId: string): void {
    if (this.#deps.sender.server?.format === "agent-server")
      this.#news.add(conversationId, { records: 0, urgent: false, changed: true });
  }

  async notifyDeletion(conversationId: string): Promise<() => void> {
    const { store, sender, logger } = this.#deps;
    const { callbacks } = store;
    const isAgentServer = sender.server?.format === "agent-server";
    const row = isAgentServer ? await callbacks.get(conversationId) : undefined;
    // The endpoint does not know the conversation yet.
    if (row?.status !== "ACTIVE" || row.nextSeq === 1) return () => {};
    const sendReport = await sender.prepareDeletion(conversationId);
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

  async list(conversationId: string): Promise<CallbackInfo[]> {
    const { callbacks, events } = this.#deps.store;
    const [rows, lastSeq] = await Promise.all([
      callbacks.listByConversation(conversationId),
      events.lastSeq(conversationId),
    ]);
    return rows.map((row) => present(row, lastSeq));
  }

  async add(userId: string, conversationId: string, processor: CallbackProcessor): Promise<CallbackInfo> {
    this.check([processor]);
    const { callbacks, events } = this.#deps.store;
    const lastSeq = await events.lastSeq(conversationId);
    const row = this.#row(userId, conversationId, processor, lastSeq + 1);
    if (!row) throw new PlatformError("TitleCallbackAdded");
    return this.#additions.run(conversationId, async () => {
      const all = await callbacks.listByConversation(conversationId);
      const own = all.filter((other) => other.processor.kind !== "ServerWebhook");
      if (own.length >= maxCallbacks) throw new PlatformError("CallbackLimitReached", { max: maxCallbacks });
      await callbacks.create([row]);
      // Records that were appended meanwhile did not reach the callback, so its worker looks for
      // them.
      if (await this.#isHere(conversationId)) this.#worker(conversationId, row.id).notifyRecords(1, false);
      return present(row, lastSeq);
    });
  }

  async retry(conversationId: string, id: string): Promise<CallbackInfo> {
    const row = await this.#find(conversationId, id);
    await this.#deps.store.callbacks.update(row.id, noFailure);
    if (await this.#isHere(conversationId)) this.#worker(conversationId, row.id).notifyRecords(0, true);
    const [current, lastSeq] = await Promise.all([
      this.#find(conversationId, id),
      this.#deps.store.events.lastSeq(conversationId),
    ]);
    return present(current, lastSeq);
  }

  async remove(conversationId: string, id: string): Promise<void> {
    const row = await this.#find(conversationId, id);
    if (row.processor.kind === "ServerWebhook") throw new PlatformError("CallbackUnknown");
    await this.#deps.store.callbacks.remove(row.id);
    await this.#workers.get(conversationId)?.get(row.id)?.close();
  }

  #notify(conversationId: string, records: readonly LogRecord[]): void {
    const urgent = records.some(isEndOfRun);
    this.#news.add(conversationId, { records: records.length, urgent, changed: false });
  }

  /**
   * Whether this node delivers for a conversation. If it does, `#sandboxes` has the conversation's
   * sandbox.
   */
  async #isHere(conversationId: string): Promise<boolean> {
    const { places } = this.#deps;
    if (!places) return true;
    const known = this.#sandboxes.get(conversationId);
    const sandboxId = known ?? (await places.findSandbox(conversationId));
    if (sandboxId === undefined || !places.owns(sandboxId)) return false;
    this.#sandboxes.set(conversationId, sandboxId);
    return true;
  }

  #worker(conversationId: string, id: string): DeliveryWorker {
    const workers = this.#workers.get(conversationId) ?? new Map<string, DeliveryWorker>();
    this.#workers.set(conversationId, workers);
    const known = workers.get(id);
    if (known) return known;
    const worker = new DeliveryWorker(this.#workerDeps, id, conversationId, () => {
      workers.delete(id);
      if (workers.size > 0 || this.#workers.get(conversationId) !== workers) return;
      this.#workers.delete(conversationId);
      this.#sandboxes.delete(conversationId);
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

  async #find(conversationId: string, id: string): Promise<CallbackRow> {
    const known = parseId(id);
    const row = known === undefined ? undefined : await this.#deps.store.callbacks.get(known);
    if (row?.conversationId !== conversationId) throw new PlatformError("CallbackUnknown");
    return row;
  }
}

function isEndOfRun({ event }: LogRecord): boolean {
  return (
    event.kind === "ConversationStateUpdateEvent" &&
    event.key === "execution_status" &&
    event.value !== "running"
  );
}
