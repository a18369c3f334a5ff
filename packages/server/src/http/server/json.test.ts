import { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { stub } from "@sandpiper/core/test/support/stub";
import Fastify from "fastify";
import { expect, test } from "vitest";
import { installBodyParsers } from "./body-parsers.ts";
import type { App } from "./services.ts";

test("many bodies at once are all processed without blocking other requests", async () => {
  const app = Fastify();
  installBodyParsers(stub<App>(app), {
    scheduler: new EventLoopScheduler(),
    bodyLimit: 2 ** 20,
    keepsBodies: false,
  });
  const schema = { body: { type: "object" } };
  let rounds = 0;
  const begun: number[] = [];
  app.post("/work", { schema }, async (request) => {
    begun.push(rounds);
    for (const end = performance.now() + 3; performance.now() < end; );
    return request.body;
  });
  await app.ready();
  const send = async (number: number) =>
    (await app.inject({ method: "POST", url: "/work", payload: { number } })).json();
  const visitor = setInterval(() => rounds++);
  const answers = await Promise.all(Array.from({ length: 100 }, (_, number) => send(number)));
  clearInterval(visitor);
  expect(answers).toEqual(answers.map((_, number) => ({ number })));
  expect(begun.at(-1)! - begun[0]!).toBeGreaterThan(5);
  await app.close();
});
