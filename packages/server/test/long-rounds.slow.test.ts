import { setImmediate as nextRound } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, type TestServer } from "./support/test-server.ts";

/**
 * Nobody is answered during a round of the event loop. Each route with a body gets bodies near the
 * limits of their size, whatever its schema says about them.
 */
let server: TestServer;
beforeAll(async () => {
  server = await startServer({ maxRequests: 0, logLevel: "error" });
  server.sandboxes.add();
});
afterAll(() => server.close());

/**
 * Longest round, ms of processor time: four times what a route takes on the reference machine, and
 * a quarter of what a route took that compared each unknown name with all known ones.
 */
const maxRoundMs = 100;

/** The shortest of some tries counts: a collection of garbage falls into one of them. */
const tries = 3;

/** As long as most names of fields, so that a misspelt one may be meant. */
const name = (index: number) => `enable_${index}s`;
const values: unknown[] = [
  Object.fromEntries(Array.from({ length: 9_000 }, (_, index) => [name(index), "text"])),
  Object.fromEntries(Array.from({ length: 4_900 }, (_, index) => [name(index), {}])),
  Array.from({ length: 4_900 }, () => ({ type: "text" })),
  "a/ -1{".repeat(150_000),
];
const texts = values.map((value) => JSON.stringify(value));

/** Bodies that are such a value, or have one in one of the schema's properties. */
function* bodies(properties: readonly string[]): Generator<[string, string]> {
  for (const [index, text] of texts.entries()) {
    yield [`value ${index}`, text];
    for (const property of properties) yield [`${property}: value ${index}`, `{"${property}":${text}}`];
  }
}

/** Watches the processor time of single rounds; `take` returns the longest since the last call. */
function watchRounds(): { take(): number; end(): void } {
  let longest = 0;
  let last = 0;
  const look = () => {
    const { user, system } = process.threadCpuUsage();
    longest = Math.max(longest, (user + system - last) / 1_000);
    last = user + system;
  };
  look();
  const timer = setInterval(look, 1);
  return {
    take() {
      look();
      const took = longest;
      longest = 0;
      return took;
    },
    end: () => clearInterval(timer),
  };
}

/** They wait for models or other servers, or read bodies as streams. */
const others = /chat\/completions|ask_agent|condense|goal|generate_title|cloud-proxy|acp|mcp\/|models?\b/;

test("no body holds the event loop for long, whatever its route", { timeout: 600_000 }, async () => {
  const { paths, components } = (await read(server.call("GET", "/openapi.json"))).body;
  const resolve = (schema: any): any =>
    schema?.$ref ? components.schemas[schema.$ref.split("/").at(-1)] : schema;
  const routes = Object.entries<any>(paths).flatMap(([path, methods]) =>
    Object.entries<any>(methods).flatMap(([method, { requestBody }]): [string, string, string[]][] => {
      const media = requestBody?.content?.["application/json"];
      if (!media || others.test(path)) return [];
      const properties = Object.keys(resolve(media.schema)?.properties ?? {});
      return [[method.toUpperCase(), path.replaceAll(/\{\w+\}/g, "x"), properties]];
    }),
  );
  expect(routes.length).toBeGreaterThan(50);
  const watch = watchRounds();
  const long: [string, string, string, number][] = [];
  for (const [method, path, properties] of routes)
    for (const [what, body] of bodies(properties.slice(0, 12))) {
      let took = Number.POSITIVE_INFINITY;
      for (let index = 0; index < tries && took > maxRoundMs; index++) {
        await nextRound();
        watch.take();
        await (await server.call(method, path, { body })).arrayBuffer();
        took = Math.min(took, watch.take());
      }
      if (took > maxRoundMs) long.push([method, path, what, Math.round(took)]);
    }
  watch.end();
  expect(long).toEqual([]);
});
