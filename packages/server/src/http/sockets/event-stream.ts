import type { ServerResponse } from "node:http";
import { PlatformError } from "@sandpiper/core/errors";
import type { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import type { FastifyReply } from "fastify";
import { requireConversation } from "../routes/account/conversation-access.ts";
import { type Authenticator, findCaller } from "../server/auth.ts";
import { InvalidInput, type Issue } from "../server/invalid-input.ts";
import type { App, HttpServices } from "../server/services.ts";
import { eventStream } from "./encode.ts";
import { type FollowerSink, followEvents } from "./follow-events.ts";
import { type Resend, readResend } from "./handshake.ts";
import { type OutboxLimits, outboxLimits } from "./outbox.ts";

export interface EventStreamOptions extends OutboxLimits {
  /** Streams and sockets of each user. */
  places: KeyedSemaphore;
  /** How often a comment is sent, so that proxies and clients see that the stream lives, and the key is looked at, ms. */
  beatMs: number;
}

const headers = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store",
  // Proxies that gather answers would hold events back.
  "x-accel-buffering": "no",
};

/**
 * Server-Sent Events at the path of the socket, for clients without WebSockets; an addition to the contract. What is sent, and the query, are the
 * socket's. `Last-Event-ID` goes on where a stream ended, and counts before the query, as browsers send both.
 */
export function eventStreamRoutes(
  app: App,
  services: Pick<HttpServices, "conversations" | "events" | "logger" | "scheduler">,
  authenticator: Authenticator,
  options: Partial<EventStreamOptions> & Pick<EventStreamOptions, "places">,
): void {
  const { conversations } = services;
  const limits: EventStreamOptions = { ...outboxLimits, beatMs: 15_000, ...options };
  const open = new Set<ServerResponse>();
  // As the sockets, it stands beside the document, whose routes all end.
  const config = { access: "agent", keyInQuery: true } as const;
  const route = { config, exposeHeadRoute: false, schema: { hide: true } as object };
  app.get("/sockets/events/:conversation_id", route, (request, reply) => {
    const { principal, params, url } = request;
    const resend =
      resumed(request.headers["last-event-id"]) ?? readResend(new URL(url, "http://localhost").searchParams);
    if (typeof resend === "string") throw new InvalidInput([issueOf(resend)]);
    const { id } = requireConversation(
      conversations,
      principal,
      (params as { conversation_id: string }).conversation_id,
    );
    const leave = limits.places.tryAcquire([principal.userId]);
    if (!leave)
      throw new PlatformError(
        "TooManyRequests",
        "Too many sockets and streams are open: close others first.",
      );
    const response = begin(reply);
    open.add(response);
    const isKnown = () => {
      try {
        return findCaller(request, authenticator) !== undefined;
      } catch {
        return false;
      }
    };
    const beat = setInterval(() => (isKnown() ? response.write(":\n\n") : response.end()), limits.beatMs);
    response.once("close", () => {
      clearInterval(beat);
      open.delete(response);
      leave();
    });
    const sink = streamSink(response);
    followEvents(sink, eventStream, id, resend, services, limits).catch((error: unknown) => {
      services.logger.error({ err: error, conversationId: id }, "an event stream failed");
      sink.fail();
    });
  });
  app.addHook("preClose", (done) => {
    for (const response of open) response.end();
    done();
  });
}

/** Sends the head at once: clients take the stream as open then. The headers of other hooks, such as CORS, stay. */
function begin(reply: FastifyReply): ServerResponse {
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(200, { ...(reply.getHeaders() as Record<string, string>), ...headers });
  raw.flushHeaders();
  return raw;
}

function streamSink(response: ServerResponse): FollowerSink {
  return {
    get open() {
      return response.writable;
    },
    get waiting() {
      return response.writableLength;
    },
    write: (bytes, taken) => void response.write(bytes, taken),
    // It knows the last number that it has read, and comes again with it.
    cutOff: () => response.destroy(),
    fail: () => response.destroy(),
    deleted: () => response.end(),
    onClose: (listener) => void response.once("close", listener),
  };
}

/** A sentence that begins with a parameter's name, as an issue. */
function issueOf(sentence: string): Issue {
  const [name, msg] = sentence.split(": ", 2) as [string, string];
  return { loc: [name === "Last-Event-ID" ? "header" : "query", name], msg, type: "value_error" };
}

function resumed(id: string | string[] | undefined): Resend | string | undefined {
  if (id === undefined || id === "") return undefined;
  return typeof id === "string" && /^\d{1,15}$/.test(id)
    ? { mode: "after", seq: Number(id) }
    : "Last-Event-ID: Input should be a valid integer";
}
