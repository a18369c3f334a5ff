import { PlatformError } from "@sandpiper/core/errors";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { InvalidInput } from "./invalid-input.ts";
import type { App } from "./services.ts";

/** Deepest nesting of a JSON body. Recursive code below the routes (serialisation, merging) is safe within it. */
export const maxJsonDepth = 64;

/** Most values of a JSON body. Parsing and checking take time for each, and meanwhile nobody else is served; long texts cost little. */
export const maxJsonValues = 100_000;

/**
 * Parses a JSON text from outside. Throws InvalidInput when it is malformed, nested deeper than `maxJsonDepth`, has more than `maxJsonValues` values, holds a NUL
 * character (no file name, argument or PostgreSQL text can) or a key `__proto__`. Its messages never quote the text.
 */
export function parseJson(text: string): unknown {
  if (hasManyValues(text)) throw invalidJson(0, `more than ${maxJsonValues} values`);
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
/** Of a comma and of the brackets that open: each begins a value. */
const beginnings: ReadonlySet<number> = new Set([0x2c, 0x5b, 0x7b]);

/** Counts beginnings of values outside of strings, which are passed over, until there are too many. */
export function hasManyValues(text: string): boolean {
  if (text.length <= maxJsonValues) return false;
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) at = endOfString(text, at);
    else if (beginnings.has(code) && ++count > maxJsonValues) return true;
  }
  return false;
}

/** Where the string that begins at a quote ends; the text's end where it does not. */
function endOfString(text: string, start: number): number {
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
 * Bodies are JSON. A route without a body ignores whatever a client sends (released clients send `{}` or an empty form);
 * a route with one answers 415 to any other content type.
 */
export function installBodyParsers(app: App, scheduler: EventLoopScheduler): void {
  // Bodies of requests that arrive at once: neither their parsing nor the first work of their routes adds up.
  const bodies = scheduler.queue("request bodies");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<string>("application/json", { parseAs: "string" }, (request, text, done) => {
    const schema = request.routeOptions.schema?.body;
    if (!schema || text === "") return done(null, undefined);
    bodies.add(() => {
      try {
        done(null, readBody(text, schema));
      } catch (error) {
        done(error as Error);
      }
    });
  });
  app.addContentTypeParser("*", (request, _payload, done) => {
    if (!request.routeOptions.schema?.body || request.headers["content-length"] === "0")
      return done(null, undefined);
    done(new PlatformError("UnsupportedMediaType", "Unsupported media type: send application/json"));
  });
}

/** Undefined for none. Throws InvalidInput. */
function readBody(text: string, schema: unknown): unknown {
  const value = parseJson(text);
  if (value !== null) return value;
  // Where the schema allows null, it says the same as no body.
  if (allowsNull(schema)) return undefined;
  throw new InvalidInput([{ loc: ["body"], msg: "Input should be a valid object", type: "dict_type" }]);
}

function allowsNull(body: unknown): boolean {
  return (body as { anyOf?: { type?: string }[] }).anyOf?.some(({ type }) => type === "null") ?? false;
}
