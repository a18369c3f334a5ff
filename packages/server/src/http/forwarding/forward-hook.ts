import type { FastifyReply, FastifyRequest } from "fastify";
import { keptBody } from "../server/body-parsers.ts";
import type { App } from "../server/services.ts";
import { concernOf } from "./concern.ts";
import type { Forwarding } from "./forwarding.ts";
import { isForwarded } from "./received.ts";

/**
 * Passes requests on to the nodes that own their sandboxes: before the body is read, where path,
 * query and key tell the sandbox, so that uploads are not kept here; otherwise with the body.
 * Register it behind the authorization, whose caller it needs, and before the routes.
 */
export function installForwarding(app: App, forwarding: Forwarding): void {
  app.addHook("onRoute", (route) => {
    route.config = { ...route.config, concerns: concernOf(route) };
  });
  const forward = async (request: FastifyRequest, reply: FastifyReply, body?: Buffer): Promise<boolean> => {
    const { principal, raw, routeOptions } = request;
    const { concerns } = routeOptions.config;
    const subject = typeof concerns === "object" ? concerns.subject(request) : undefined;
    const sandboxId = await forwarding.find(principal, subject);
    if (sandboxId === undefined) return false;
    const incoming = { request: raw, response: reply.raw, isForwarded: isForwarded(raw), body };
    return (await forwarding.request(sandboxId, incoming)) === "answered";
  };
  /** Needs the body, and is not limited to a sandbox by its key. */
  const waitsForBody = ({ principal, routeOptions }: FastifyRequest): boolean => {
    const { concerns } = routeOptions.config;
    return typeof concerns === "object" && concerns.isInBody === true && principal.sandboxId === undefined;
  };
  app.addHook("onRequest", (request, reply, done) => {
    // A public route concerns no sandbox.
    if (!request.principal || waitsForBody(request)) return done();
    forward(request, reply).then((isAnswered) => (isAnswered ? void reply.hijack() : done()), done);
  });
  // What the validation changes in the body, it changes at the owner.
  app.addHook("preValidation", (request, reply, done) => {
    if (!request.principal || !waitsForBody(request)) return done();
    forward(request, reply, keptBody(request)).then(
      (isAnswered) => (isAnswered ? void reply.hijack() : done()),
      done,
    );
  });
}
