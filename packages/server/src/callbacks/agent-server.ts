import { setTimeout as sleep } from "node:timers/promises";
import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import type { Outbound } from "@sandpiper/core/outbound/api";
import { trimTail } from "@sandpiper/core/trim";
import { hexId } from "@sandpiper/wire";
import type { Batch } from "./batch.ts";
import { type DeliveryOutcome, type Endpoint, post } from "./endpoint.ts";

/** Attempts to report a deletion, and the wait between them, ms (agent-server.md section 10). */
const deletionAttempts = 4;
const deletionRetryMs = 5_000;

/**
 * One report: the conversation before its first events, and after events that changed its state.
 */
export interface Report {
  conversationId: string;
  batch: Pick<Batch, "events" | "firstSeq"> | undefined;
  /** The execution status after the batch, if the batch changes it. */
  status: unknown;
  /** The conversation's metadata has changed, and there are no further events. */
  changed: boolean;
}

/**
 * Reports like an agent server (agent-server.md section 10): the conversation to
 * `{base}/conversations`, events to `{base}/events/{id}`, with the key in `X-Session-API-Key`.
 * `info` returns the current conversation, undefined when it is deleted. The reported status is
 * that of the sent events, so that a run does not seem to end before its last events.
 */
export async function report(
  outbound: Outbound,
  endpoint: Endpoint,
  { conversationId, batch, status, changed }: Report,
  info: () => Promise<object | undefined>,
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  const withStatus = async (execution_status: unknown) => {
    const now = await info();
    return now && { ...now, ...(execution_status !== undefined && { execution_status }) };
  };
  let outcome: DeliveryOutcome = { ok: true };
  if (batch?.firstSeq === 1)
    outcome = await sendConversation(outbound, endpoint, await withStatus("idle"), signal);
  if (outcome.ok && batch)
    outcome = await send(
      outbound,
      endpoint,
      `events/${hexId(conversationId)}`,
      `[${batch.events.join(",")}]`,
      signal,
    );
  if (outcome.ok && (changed || status !== undefined))
    outcome = await sendConversation(outbound, endpoint, await withStatus(status), signal);
  return outcome;
}

/** Reports a deleted conversation, with retries. `info` is its last state. */
export async function reportDeletion(
  outbound: Outbound,
  endpoint: Endpoint,
  info: object,
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  for (let attempt = 1; ; attempt++) {
    const outcome = await sendConversation(
      outbound,
      endpoint,
      { ...info, execution_status: "deleting" },
      signal,
    );
    if (outcome.ok || outcome.final || attempt === deletionAttempts || signal.aborted) return outcome;
    await sleep(deletionRetryMs, undefined, { signal }).catch(() => {});
  }
}

/** The last execution status in the records, if any. */
export function findLastStatus(records: readonly LogRecord[]): unknown {
  const changes = records.flatMap(({ event }) =>
    event.kind === "ConversationStateUpdateEvent" && event.key === "execution_status" ? [event.value] : [],
  );
  return changes.at(-1);
}

async function sendConversation(
  outbound: Outbound,
  endpoint: Endpoint,
  info: object | undefined,
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  return info ? send(outbound, endpoint, "conversations", JSON.stringify(info), signal) : { ok: true };
}

function send(
  outbound: Outbound,
  { url, secret }: Endpoint,
  path: string,
  body: string,
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  const address = new URL(url);
  address.pathname = `${trimTail(address.pathname, "/")}/${path}`;
  return post(
    outbound,
    address.href,
    { headers: secret === null ? {} : { "x-session-api-key": secret }, body },
    signal,
  );
}
