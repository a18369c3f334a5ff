import { setTimeout as sleep } from "node:timers/promises";
import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import type { Outbound } from "@sandpiper/core/outbound/api";
import { hexId } from "@sandpiper/wire";
import type { Batch } from "./batch.ts";
import { type Endpoint, type Outcome, post } from "./endpoint.ts";

/** How often the deletion of a conversation is told to an endpoint that does not take it, and the wait between, ms (agent-server.md section 10). */
const deletionAttempts = 4;
const deletionRetryMs = 5_000;

/** What is told of a conversation at once: the conversation before its first events, and after events that changed its state. */
export interface Report {
  conversationId: string;
  batch: Pick<Batch, "events" | "firstSeq"> | undefined;
  /** The execution status after the batch, where the batch changes it. */
  status: unknown;
  /** The conversation's record has changed, and there are no further events. */
  changed: boolean;
}

/**
 * Reports as an agent server does (agent-server.md section 10): the conversation itself at `{base}/conversations`, its events at
 * `{base}/events/{id}`, with the key in `X-Session-API-Key`. `info` is the conversation as it is now; undefined: it is gone. Its status is told as of the
 * events that were sent: otherwise a run could seem to have ended before its last events.
 */
export async function report(
  outbound: Outbound,
  endpoint: Endpoint,
  { conversationId, batch, status, changed }: Report,
  info: () => object | undefined,
  signal: AbortSignal,
): Promise<Outcome> {
  const withStatus = (execution_status: unknown) => {
    const now = info();
    return now && { ...now, ...(execution_status !== undefined && { execution_status }) };
  };
  let outcome: Outcome = { ok: true };
  if (batch?.firstSeq === 1) outcome = await sendConversation(outbound, endpoint, withStatus("idle"), signal);
  if (outcome.ok && batch)
    outcome = await send(
      outbound,
      endpoint,
      `events/${hexId(conversationId)}`,
      `[${batch.events.join(",")}]`,
      signal,
    );
  if (outcome.ok && (changed || status !== undefined))
    outcome = await sendConversation(outbound, endpoint, withStatus(status), signal);
  return outcome;
}

/** Tells of a deleted conversation, a few times where it has to. `info` is how the conversation was. */
export async function reportDeletion(
  outbound: Outbound,
  endpoint: Endpoint,
  info: object,
  signal: AbortSignal,
): Promise<Outcome> {
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

/** The execution status that records leave, where they change it. */
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
): Promise<Outcome> {
  return info ? send(outbound, endpoint, "conversations", JSON.stringify(info), signal) : { ok: true };
}

function send(
  outbound: Outbound,
  { url, secret }: Endpoint,
  path: string,
  body: string,
  signal: AbortSignal,
): Promise<Outcome> {
  const address = new URL(url);
  address.pathname = `${address.pathname.replace(/\/+$/, "")}/${path}`;
  return post(
    outbound,
    address.href,
    { headers: secret === null ? {} : { "x-session-api-key": secret }, body },
    signal,
  );
}
