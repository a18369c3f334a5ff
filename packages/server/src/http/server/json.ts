import { PlatformError } from "@sandpiper/core/errors";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { InvalidInput } from "./invalid-input.ts";
import { BodyBudget } from "./limits/body-budget.ts";
import type { App } from "./services.ts";

/** Maximum nesting of a JSON body, so that recursive code behind the routes is safe. */
export const maxJsonDepth = 64;

/**
 * Maximum values of a JSON body: parsing blocks the event loop for each value, hardly for long
 * texts.
 */
export const maxJsonValues = 10_000;

/** Maximum bytes of a body that holds no message, whose images make it long. */
const maxShortBodyBytes = 1024 * 1024;

declare module "fastify" {
  interface FastifyContextConfig {
    /** The body holds messages: it may be as long as the server's limit allows. */
    longBody?: true;
  }
}

/**
 * Parses JSON from a client. Throws InvalidInput when it is malformed, exceeds `maxJsonDepth` or
 * `maxJsonValues`, or contains a NUL character (invalid in file names, arguments and PostgreSQL
 * texts) or the key `__proto__`. The messages never quote the text.
 */
export function parseJson(text: string): unknown {
  if (hasTooManyValues(text)) throw invalidJson(0, `more than ${maxJsonValues} values`);
  let value: unknown;
  try {
    value = JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
  } catch (error) {
    const position = /position (\d+)/.exec((error as Error).message)?.[1];
    throw invalidJson(position === undefined ? text.length : Number(position), "malformed JSON");
  }
  checkJson(value);
  return value;
}

const quote = 0x22;
const backslash = 0x5c;
/** A comma or an opening bracket begins a value. */
const valueStarts: ReadonlySet<number> = new Set([0x2c, 0x5b, 0x7b]);

/** Whether a text has too many values; counts beginnings of values outside of strings. */
export function hasTooManyValues(text: string): boolean {
  if (text.length <= maxJsonValues) return false;
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) at = findStringEnd(text, at);
    else if (valueStarts.has(code) && ++count > maxJsonValues) return true;
  }
  return false;
}

/**
 * The index of the quote that closes the string opened at `start`; the text's length if none does.
 */
function findStringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let before = end - 1;
    while (text.charCodeAt(before) === backslash) before--;
    if ((end - before) % 2 === 1) return end;
  }
  return text.length;
}

function checkJson(root: unknown): void {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxJsonDepth) throw invalidJson(0, `nested deeper than ${maxJsonDepth} levels`);
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value === "string") checkText(value);
      else if (Array.isArray(value)) for (const item of value) next.push(item);
      else if (value !== null && typeof value === "object") {
        for (const key of Object.keys(value)) {
          if (key === "__proto__") throw invalidJson(0, "the key __proto__ is not allowed");
          checkText(key);
          next.push((value as Record<string, unknown>)[key]);
        }
      }
    }
    level = next;
  }
}

function checkText(text: string): void {
  if (text.includes("\0")) throw invalidJson(0, "text holds a NUL character");
}

function invalidJson(position: number, reason: string): InvalidInput {
  return new InvalidInput([
    { loc: ["body", position], msg: `JSON decode error: ${reason}`, type: "json_invalid" },
  ]);
}

/**
 * Bodies are JSON. A route without a body ignores what clients send (released clients send `{}` or
 * an empty form); a route with a body responds 415 to other content types. Bodies above
 * `bodyLimit` bytes, or 1 MiB where the route expects no message, are rejected with 413.
 */
export function installBodyParsers(app: App, scheduler: EventLoopScheduler, bodyLimit: number): void {
  app.addHook("onRoute", (route) => {
    if (!route.config?.longBody) route.bodyLimit ??= Math.min(maxShortBodyBytes, bodyLimit);
  });
  const budget = new BodyBudget();
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
  // Spreads the parsing and first work of bodies that arrive together over the event loop.
  const bodies = scheduler.queue("request bodies");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<string>("application/json", { parseAs: "string" }, (request, text, done) => {
    const schema = request.routeOptions.schema?.body;
    if (!schema || text === "") return done(null, undefined);
    bodies.add(() => {
      try {
        done(null, parseBody(text, schema));
      } catch (error) {
        done(error as Error);
      }
    });
  });
  app.addContentTypeParser("*", (request, _payload, done) => {
    if (!request.routeOptions.schema?.body || request.headers["content-length"] === "0")
      return done(null, undefined);
    done(new PlatformError("MediaTypeNotJson"));
  });
}

/** Undefined when there is no body. Throws InvalidInput. */
function parseBody(text: string, schema: unknown): unknown {
  const value = parseJson(text);
  if (value !== null) return value;
  // Where the schema allows null, null equals no body.
  if (allowsNull(schema)) return undefined;
  throw new InvalidInput([{ loc: ["body"], msg: "Input should be a valid object", type: "dict_type" }]);
}

function allowsNull(body: unknown): boolean {
  return (body as { anyOf?: { type?: string }[] }).anyOf?.some(({ type }) => type === "null") ?? false;
}
