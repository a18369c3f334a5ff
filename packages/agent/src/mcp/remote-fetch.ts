import { setTimeout as delay } from "node:timers/promises";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import { easeEventStream } from "@sandpiper/core/outbound/event-stream";
import { boundedBody, type StreamEnd } from "./event-bound.ts";
import { maxMessageBytes } from "./line-reader.ts";
import { shortText } from "./message-text.ts";

/** Maximum duration of a request, ms: connections are released long before. */
const longestMs = 24 * 3_600_000;

/** Bytes of one answer, progress events included. */
const maxAnswerBytes = 64 * 1024 * 1024;

/** Characters kept of a refusal. */
const maxRefusal = 400;

/** Stream lifetime after which a reconnect is immediate, and the longest pause otherwise, ms. */
const steadyMs = 30_000;
const longestPauseMs = 60_000;

export interface RemoteFetchOptions {
  outbound: Pick<Outbound, "fetch">;
  /** Sent with every request, names in lower case. */
  headers: Readonly<Record<string, string>>;
  /** Requests carry a secret: plain http only goes to ranges that the operator allowed. */
  secret: boolean;
  /** Ends all requests. */
  signal: AbortSignal;
  /** Maximum silence of an event stream, ms. */
  silenceMs?: number | undefined;
  /**
   * Called when the answer of a request (or, without id, the stream of server messages) ended and
   * cannot be resumed. After a problem the server must be disconnected.
   */
  onEnd(id: string | number | undefined, end: StreamEnd): void;
}

/** A guarded fetch for the library, with limits and growing pauses between reconnects. */
export function remoteFetch({ outbound, headers, secret, signal, silenceMs, onEnd }: RemoteFetchOptions) {
  let streams = 0;
  let openedAt = 0;
  const pause = async () => {
    if (performance.now() - openedAt > steadyMs) streams = 0;
    const wait = streams === 0 ? 0 : Math.min(longestPauseMs, 500 * 2 ** streams);
    streams += 1;
    if (wait > 0) await delay(wait, undefined, { signal });
    openedAt = performance.now();
  };
  return async (url: string | URL, init: RequestInit = {}): Promise<Response> => {
    const method = init.method ?? "GET";
    if (method === "GET") await pause();
    const sent = typeof init.body === "string" ? init.body : undefined;
    const id = sent === undefined ? undefined : idOf(sent);
    const answer = await outbound.fetch(String(url), {
      method,
      headers: {
        "accept-encoding": "identity",
        ...Object.fromEntries(new Headers(init.headers)),
        ...headers,
      },
      ...(sent !== undefined && { body: sent }),
      timeoutMs: longestMs,
      maxBytes: method === "GET" ? Number.MAX_SAFE_INTEGER : maxAnswerBytes,
      secret,
      redirect: "manual",
      signal: init.signal ? AbortSignal.any([init.signal, signal]) : signal,
    });
    if (answer.status >= 400) return refusal(answer);
    if (!answer.body) return answer;
    const isStream =
      answer.headers.get("content-type")?.toLowerCase().startsWith("text/event-stream") === true;
    const ended = (resumable: boolean, end: StreamEnd) => {
      if (method === "GET" || end.problem !== undefined || (id !== undefined && !resumable)) onEnd(id, end);
    };
    const body = isStream ? answer.body.pipeThrough(easeEventStream()) : answer.body;
    const bounded = boundedBody(body, {
      maxBytes: maxMessageBytes,
      isStream,
      silenceMs,
      onEnd: ended,
    });
    return new Response(bounded, { status: answer.status, headers: answer.headers });
  };
}

/** A refusal with the start of its text: the library repeats it in its errors. */
async function refusal(answer: Response): Promise<Response> {
  let text = "";
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  try {
    while (reader && text.length < maxRefusal) {
      const { done, value } = await reader.read();
      if (done) break;
      text += value;
    }
  } catch {
    // The text read so far is enough.
  }
  void reader?.cancel().catch(() => {});
  return new Response(shortText(text, maxRefusal), { status: answer.status, headers: answer.headers });
}

function idOf(body: string): string | number | undefined {
  const message = JSON.parse(body) as { id?: string | number; method?: string };
  return message.method === undefined ? undefined : message.id;
}

/** Describes an error of a remote server. */
export function remoteProblem(error: unknown): string {
  if (error instanceof PlatformError) return error.message;
  const { cause } = error as { cause?: unknown };
  if (cause instanceof PlatformError) return cause.message;
  if (error instanceof SyntaxError) return "It answered what is not JSON.";
  const status = statusOf(error);
  const said = shortText(
    errorText(error)
      .replace(/^(?:Streamable HTTP error: |SSE error: )/, "")
      .replace(/^Error POSTing to endpoint(?: \(HTTP \d+\))?: ?/, "")
      .replace(/^Non-200 status code \(\d+\)$/, ""),
  );
  const words = said ? `: ${said}` : "";
  if (status === 401 || status === 403)
    return `It refused the credentials (${status})${words}; check its headers, auth or api_key.`;
  return status === undefined ? said || "It could not be reached." : `It answered ${status}${words}.`;
}

/** The status 401 or 403 of an error; undefined otherwise. */
export function refusedStatus(error: unknown): number | undefined {
  const status = statusOf(error instanceof PlatformError ? error.cause : error);
  return status === 401 || status === 403 ? status : undefined;
}

/** The library reports it in a field or only in the text. */
function statusOf(error: unknown): number | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code === "number" && code >= 400 && code < 600) return code;
  const [, status] = /^Error POSTing to endpoint \(HTTP ([45]\d\d)\)/.exec(errorText(error)) ?? [];
  return status === undefined ? undefined : Number(status);
}
