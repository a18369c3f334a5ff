import type { ServerResponse } from "node:http";
import { PlatformError } from "@sandpiper/core/errors";
import type { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import type { FastifyReply } from "fastify";
import { requireConversation } from "../routes/account/conversation-access.ts";
import { InvalidInput, type Issue } from "../server/invalid-input.ts";
import type { App, HttpServices } from "../server/services.ts";
import { encodeServerSentEvent } from "./encode.ts";
import { type FollowerSink, followEvents } from "./follow-events.ts";
import { parseResend, type Resend } from "./handshake.ts";
import { type OutboxLimits, outboxLimits } from "./outbox.ts";

export interface EventStreamOptions extends OutboxLimits {
  /** Streams and sockets per user. */
  quota: KeyedSemaphore;
  /** Interval of comments, which keep the stream alive, ms. */
  beatMs: number;
}

const headers = {
  "content-type": "text/event-stream; charset=utf-8",
  // Stops proxies from buffering events.
  "x-accel-buffering": "no",
};

/**
 * Server-Sent Events at the socket's path, for clients without WebSockets; an addition to the
 * contract. Events and query are the socket's. `Last-Event-ID` resumes a stream and overrides the
 * query, because browsers send both.
 */
export function eventStreamRoutes(
  app: App,
  services: Pick<HttpServices, "conversations" | "events" | "logger" | "scheduler">,
  options: Partial<EventStreamOptions> & Pick<EventStreamOptions, "quota">,
): void {
  const { conversations } = services;
  const limits: EventStreamOptions = { ...outboxLimits, beatMs: 15_000, ...options };
  const open = new Set<ServerResponse>();
  // Like the sockets, streams are not in the OpenAPI document.
  const config = { access: "agent", keyInQuery: true } as const;
  const route = { config, exposeHeadRoute: false, schema: { hide: true } as object };
  app.get("/sockets/events/:conversation_id", route, async (request, reply) => {
    const { principal, params, url } = request;
    const resend =
      parseLastEventId(request.headers["last-event-id"]) ??
      parseResend(new URL(url, "http://localhost").searchParams);
    if (typeof resend === "string") throw new InvalidInput([toIssue(resend)]);
    const { id } = await requireConversation(
      conversations,
      principal,
      (params as { conversation_id: string }).conversation_id,
    );
    // A response that has closed meanwhile tells nobody that its client leaves.
    if (reply.raw.closed) return void reply.hijack();
    const leave = limits.quota.tryAcquire([principal.userId]);
    if (!leave) throw new PlatformError("TooManyStreams");
    const response = sendHead(reply);
    open.add(response);
    const beat = setInterval(() => response.write(":\n\n"), limits.beatMs);
    response.once("close", () => {
      clearInterval(beat);
      open.delete(response);
      leave();
    });
    const sink = makeStreamSink(response);
    followEvents(sink, encodeServerSentEvent, id, resend, services, limits).catch((error: unknown) => {
      services.logger.error({ err: error, conversationId: id }, "an event stream failed");
      sink.fail();
    });
  });
  app.addHook("preClose", (done) => {
    for (const response of open) response.end();
    done();
  });
}

/**
 * Sends the head at once, so that clients treat the stream as open; keeps headers of other hooks.
 */
function sendHead(reply: FastifyReply): ServerResponse {
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(200, { ...(reply.getHeaders() as Record<string, string>), ...headers });
  raw.flushHeaders();
  return raw;
}

function makeStreamSink(response: ServerResponse): FollowerSink {
  return {
    get open() {
      return response.writable;
    },
    get bufferedBytes() {
      return response.writableLength;
    },
    write: (bytes, taken) => void response.write(bytes, taken),
    // The client reconnects with the last number that it read.
    disconnect: () => response.destroy(),
    fail: () => response.destroy(),
    deleted: () => response.end(),
    moved: () => response.end(),
    onClose: (listener) => void response.once("close", () => listener(false)),
  };
}

/** Converts a message that begins with a parameter's name to an issue. */
function toIssue(sentence: string): Issue {
  const [name, msg] = sentence.split(": ", 2) as [string, string];
  return { loc: [name === "Last-Event-ID" ? "header" : "query", name], msg, type: "value_error" };
}

function parseLastEventId(id: string | string[] | undefined): Resend | string | undefined {
  if (id === undefined || id === "") return undefined;
  return typeof id === "string" && /^\d{1,15}$/.test(id)
    ? { mode: "after", seq: Number(id) }
    : "Last-Event-ID: Input should be a valid integer";
}
