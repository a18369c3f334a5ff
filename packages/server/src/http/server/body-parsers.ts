import { PlatformError } from "@sandpiper/core/errors";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { FastifyRequest } from "fastify";
import { gatherPieces } from "./gather-pieces.ts";
import { InvalidInput } from "./invalid-input.ts";
import { parseJson } from "./json.ts";
import { JsonReaderClient } from "./json-reader-client.ts";
import { BodyBudget } from "./limits/body-budget.ts";
import type { App } from "./services.ts";

/** Longer bodies, with images, are parsed by a thread, bytes. */
const maxInlineBytes = 256 * 1024;

/** Maximum bytes of a body with neither a message, whose images make it long, nor a command. */
const maxShortBodyBytes = 1024 * 1024;

declare module "fastify" {
  interface FastifyContextConfig {
    /** The body holds messages or a command: it may be as long as the server's limit allows. */
    longBody?: true;
  }
}

/** Bodies as they came, of the routes that pass them on to other nodes. */
const kept = new WeakMap<FastifyRequest, Buffer>();

export function keptBody(request: FastifyRequest): Buffer | undefined {
  return kept.get(request);
}

/**
 * Bodies are JSON. A route without a body ignores what clients send (released clients send `{}` or
 * an empty form); a route with a body responds 415 to other content types. Bodies above
 * `bodyLimit` bytes, or 1 MiB without the route's option `longBody`, are rejected with 413.
 * `keepsBodies`: what is read of requests may be passed on to other nodes.
 */
export function installBodyParsers(
  app: App,
  {
    scheduler,
    bodyLimit,
    keepsBodies,
  }: { scheduler: EventLoopScheduler; bodyLimit: number; keepsBodies: boolean },
): void {
  app.addHook("onRoute", (route) => {
    if (!route.config?.longBody) route.bodyLimit ??= Math.min(maxShortBodyBytes, bodyLimit);
  });
  const budget = new BodyBudget();
  app.addHook("preParsing", (request, reply, payload, done) => {
    const inPieces = request.headers["transfer-encoding"] !== undefined;
    done(null, inPieces ? gatherPieces(payload, reply.raw) : payload);
  });
  app.addHook("preParsing", (request, reply, _payload, done) => {
    const { schema, bodyLimit: most = bodyLimit } = request.routeOptions;
    const length = Number(request.headers["content-length"] ?? most);
    // What is longer is refused before it is read.
    if (!schema?.body || length > most) return done();
    const release = budget.take(request.principal?.userId ?? "", length);
    if (!release) return done(new PlatformError("TooManyBodies"));
    reply.raw.once("close", release);
    done();
  });
  const reader = new JsonReaderClient();
  // Spreads the parsing and first work of bodies that arrive together over the event loop.
  const bodies = scheduler.queue("request bodies");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<Buffer>("application/json", { parseAs: "buffer" }, (request, bytes, done) => {
    const { schema: { body: schema } = {}, config } = request.routeOptions;
    if (keepsBodies && typeof config.concerns === "object" && config.concerns.isInBody)
      kept.set(request, bytes);
    if (!schema || bytes.length === 0) return done(null, undefined);
    const begin = (parsed: () => unknown) =>
      bodies.add(() => {
        try {
          done(null, toBody(parsed(), schema));
        } catch (error) {
          done(error as Error);
        }
      });
    if (bytes.length <= maxInlineBytes) return begin(() => parseJson(bytes.toString("utf8")));
    reader.parse(bytes).then((value) => begin(() => value), done);
  });
  app.addContentTypeParser("*", (request, _payload, done) => {
    if (!request.routeOptions.schema?.body || request.headers["content-length"] === "0")
      return done(null, undefined);
    done(new PlatformError("MediaTypeNotJson"));
  });
}

/** Undefined when there is no body. Throws InvalidInput. */
function toBody(value: unknown, schema: unknown): unknown {
  if (value !== null) return value;
  // Where the schema allows null, null equals no body.
  if (allowsNull(schema)) return undefined;
  throw new InvalidInput([{ loc: ["body"], msg: "Input should be a valid object", type: "dict_type" }]);
}

function allowsNull(body: unknown): boolean {
  return (body as { anyOf?: { type?: string }[] }).anyOf?.some(({ type }) => type === "null") ?? false;
}
