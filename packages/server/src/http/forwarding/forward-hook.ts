import type { IncomingMessage } from "node:http";
import { PlatformError } from "@sandpiper/core/errors";
import type { FastifyReply, FastifyRequest } from "fastify";
import { isMoved } from "../../conversations/custody.ts";
import { keptBody } from "../server/body-parsers.ts";
import type { Rescue } from "../server/errors.ts";
import type { App } from "../server/services.ts";
import { concernOf } from "./concern.ts";
import type { Forwarding } from "./forwarding.ts";
import { isForwarded } from "./received.ts";

/**
 * Returns whether another node has answered a request. `body` is the body of the request, if this
 * node has read it.
 */
type Forward = (request: FastifyRequest, reply: FastifyReply, body?: Buffer) => Promise<boolean>;

/** The requests whose sandbox this node owned when they came. */
const handledHere = new WeakSet<IncomingMessage>();

function forwardWith(forwarding: Forwarding): Forward {
  return async (request, reply, body) => {
    const { principal, raw, routeOptions } = request;
    const { concerns } = routeOptions.config;
    const subject = typeof concerns === "object" ? concerns.subject(request) : undefined;
    const incoming = { request: raw, response: reply.raw, isForwarded: isForwarded(raw), body };
    const sandbox = await forwarding.find(principal, subject, incoming.isForwarded);
    if (sandbox === undefined) return false;
    if ((await forwarding.request(sandbox, incoming)) === "answered") return true;
    handledHere.add(raw);
    return false;
  };
}

/**
 * Returns whether another node has answered a request: a read whose sandbox went to that node, or a
 * start whose sandbox belongs to it, of which nothing has begun.
 */
export function answerElsewhere(forwarding: Forwarding): Rescue {
  const forward = forwardWith(forwarding);
  return async (error, request, reply) => {
    const isRead = request.method === "GET" || request.method === "HEAD";
    const mayPassOn = isElsewhere(error) || (isRead && isMoved(error));
    if (!mayPassOn || !handledHere.delete(request.raw) || reply.raw.headersSent) return false;
    return forward(request, reply, keptBody(request));
  };
}

/**
 * Passes requests on to the nodes that own their sandboxes. Where path, query and key say the
 * sandbox, the hook passes a request on before its body is read, so that this node keeps no upload
 * in memory; elsewhere the hook passes it on with the body. The hook needs the caller that the
 * authorization finds: register it after the authorization and before the routes.
 */
export function installForwarding(app: App, forwarding: Forwarding): void {
  app.addHook("onRoute", (route) => {
    route.config = { ...route.config, concerns: concernOf(route) };
  });
  const forward = forwardWith(forwarding);
  /**
   * Whether a request waits for its body: its route's rule reads the body, and no key names a
   * sandbox.
   */
  const waitsForBody = ({ principal, routeOptions }: FastifyRequest): boolean => {
    const { concerns } = routeOptions.config;
    return typeof concerns === "object" && concerns.isInBody === true && principal.sandboxId === undefined;
  };
  app.addHook("onRequest", (request, reply, done) => {
    // A public route concerns no sandbox.
    if (!request.principal || waitsForBody(request)) return done();
    forward(request, reply).then((isAnswered) => (isAnswered ? void reply.hijack() : done()), done);
  });
  // The owner validates the body, so it makes the changes of the validation.
  app.addHook("preValidation", (request, reply, done) => {
    if (!request.principal || !waitsForBody(request)) return done();
    forward(request, reply, keptBody(request)).then(
      (isAnswered) => (isAnswered ? void reply.hijack() : done()),
      done,
    );
  });
}

function isElsewhere(error: unknown): boolean {
  return error instanceof PlatformError && error.code === "SandboxElsewhere";
}
