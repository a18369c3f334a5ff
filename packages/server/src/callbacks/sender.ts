import type { Outbound } from "@sandpiper/core/outbound/api";
import type { TraceContext } from "@sandpiper/core/outbound/trace-context";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import { hexId } from "@sandpiper/wire";
import type { CallbackRow } from "../store/callback-store.ts";
import { type Report, report, reportDeletion } from "./agent-server.ts";
import type { Batch } from "./batch.ts";
import { type DeliveryOutcome, deliver, type Endpoint } from "./endpoint.ts";

export interface CallbackSenderDeps {
  outbound: Outbound;
  /** The operator's endpoint: SANDPIPER_WEBHOOK_URL, _SECRET and _FORMAT. */
  server?: Endpoint | undefined;
  /** The conversation for reports in the format `agent-server`; undefined when it is unknown. */
  conversationInfo?: (id: string) => Promise<object | undefined>;
  /** The trace of a conversation, for the endpoints of its user. */
  trace?: (conversationId: string) => Promise<TraceContext | undefined>;
  /** Masks a value in logs and errors. */
  registerSecret(value: string): void;
}

/** Maximum concurrent deliveries: in total, per owner, and per owner and origin. */
const limits = [64, 16, 4];

/** Sends events and reports to the endpoints of users and of the operator. */
export class CallbackSender {
  readonly #deps: CallbackSenderDeps;
  readonly #slots = new KeyedSemaphore(limits);

  constructor(deps: CallbackSenderDeps) {
    this.#deps = deps;
  }

  get server(): Endpoint | undefined {
    return this.#deps.server;
  }

  /** Throws InvalidParameter or OutboundRefused for a URL that must not be called. */
  check(url: string): void {
    this.#deps.outbound.check(url);
  }

  registerSecret(value: string): void {
    this.#deps.registerSecret(value);
  }

  /** Waits for a slot; undefined after an abort. The operator's callbacks have one owner. */
  acquire(row: CallbackRow, signal: AbortSignal): ReturnType<KeyedSemaphore["acquire"]> {
    const owner = row.processor.kind === "ServerWebhook" ? "server" : `user ${row.userId}`;
    const url = this.#endpoint(row)?.url ?? "";
    return this.#slots.acquire(["all", owner, `${owner} ${URL.parse(url)?.origin ?? url}`], signal);
  }

  async send(row: CallbackRow, batch: Batch, signal: AbortSignal): Promise<DeliveryOutcome> {
    const endpoint = this.#endpoint(row);
    if (!endpoint) return { ok: false, detail: "The operator has removed the URL.", final: true };
    const id = `${hexId(row.id)}-${batch.firstSeq}-${batch.lastSeq}`;
    const { conversationId } = row;
    const isUsers = row.processor.kind === "WebhookCallbackProcessor";
    const trace = isUsers ? await this.#deps.trace?.(conversationId) : undefined;
    return deliver(
      this.#deps.outbound,
      endpoint,
      { id, conversationId, events: batch.events, trace },
      signal,
    );
  }

  /** Reports events and a changed conversation to the operator's agent-server endpoint. */
  report(endpoint: Endpoint, what: Report, signal: AbortSignal): Promise<DeliveryOutcome> {
    const { outbound, conversationInfo } = this.#deps;
    return report(outbound, endpoint, what, async () => conversationInfo?.(what.conversationId), signal);
  }

  /**
   * Returns a function that reports the deletion of a conversation; undefined when there is nothing
   * to report.
   */
  async prepareDeletion(
    conversationId: string,
  ): Promise<((signal: AbortSignal) => Promise<DeliveryOutcome>) | undefined> {
    const { outbound, server, conversationInfo } = this.#deps;
    const info = await conversationInfo?.(conversationId);
    if (!server || !info) return undefined;
    return async (signal) => {
      const leave = await this.#slots.acquire(["all", "deletions"], signal);
      return reportDeletion(outbound, server, info, signal).finally(leave);
    };
  }

  #endpoint({ processor, secret }: CallbackRow): Endpoint | undefined {
    if (secret !== null) this.#deps.registerSecret(secret);
    if (processor.kind === "WebhookCallbackProcessor") return { url: processor.url, secret };
    return this.#deps.server;
  }
}
