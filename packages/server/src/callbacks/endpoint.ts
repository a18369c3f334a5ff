import { createHmac } from "node:crypto";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { TraceContext } from "@sandpiper/core/outbound/trace-context";
import { hexId } from "@sandpiper/wire";
import { parseRetryAfter } from "./backoff.ts";

/**
 * The URL and signing key of deliveries; in the format `agent-server` the base URL and the session
 * key.
 */
export interface Endpoint {
  url: string;
  secret: string | null;
  /** Default `signed`. */
  format?: "signed" | "agent-server";
}

export interface Delivery {
  /** The id of a delivery, the same when it is repeated. */
  id: string;
  conversationId: string;
  /** JSON texts of the events. */
  events: readonly string[];
  trace?: TraceContext | undefined;
}

/** `final`: no further attempts. `retryAfterMs`: requested by the endpoint. */
export type DeliveryOutcome =
  | { ok: true }
  | { ok: false; detail: string; retryAfterMs?: number; final?: boolean };

const answerTimeoutMs = 10_000;

/** Posts the events as a JSON array; any 2xx is a success. Redirects are not followed. */
export async function deliver(
  outbound: Outbound,
  { url, secret }: Endpoint,
  { id, conversationId, events, trace }: Delivery,
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  const body = `[${events.join(",")}]`;
  const timestamp = String(Math.floor(Date.now() / 1_000));
  const headers = {
    ...trace,
    "x-sandpiper-delivery": id,
    "x-sandpiper-conversation": hexId(conversationId),
    "x-sandpiper-timestamp": timestamp,
    ...(secret !== null && { "x-sandpiper-signature": signDelivery(secret, timestamp, body) }),
  };
  return post(outbound, url, { headers, body }, signal);
}

/** Posts JSON and returns the outcome; never throws. */
export async function post(
  outbound: Outbound,
  url: string,
  { headers, body }: { headers: Record<string, string>; body: string },
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  try {
    const response = await outbound.fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", "user-agent": "sandpiper", ...headers },
      body,
      timeoutMs: answerTimeoutMs,
      redirect: "manual",
      signal,
    });
    await response.body?.cancel().catch(() => {});
    return toOutcome(response);
  } catch (error) {
    const known =
      error instanceof PlatformError
        ? error.message
        : `The address could not be reached: ${errorText(error)}`;
    return { ok: false, detail: known.slice(0, 300) };
  }
}

function toOutcome({ status, headers }: Response): DeliveryOutcome {
  if (status >= 200 && status < 300) return { ok: true };
  if (status === 410)
    return { ok: false, detail: "The address answered 410: it wants no more events.", final: true };
  if (status >= 300 && status < 400) {
    return {
      ok: false,
      detail: `The address answered ${status}, a redirect, which is not followed: name the address that it points to.`,
    };
  }
  const retryAfterMs = parseRetryAfter(headers.get("retry-after"));
  return {
    ok: false,
    detail: `The address answered ${status}.`,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}

/** HMAC-SHA256 of `<timestamp>.<body>` as hex, with the timestamp of the header. */
function signDelivery(secret: string, timestamp: string, body: string): string {
  return createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex");
}
