import { newId } from "@sandpiper/wire";
import { pino } from "pino";
import { expect, test } from "vitest";
import { ConversationNews, type News } from "./news.ts";

const id = newId();
const record: News = { records: 1, urgent: false, changed: false };
const end: News = { records: 1, urgent: true, changed: false };
const change: News = { records: 0, urgent: false, changed: true };

/** Looks up callbacks in a list. Each look-up waits until the test answers it. */
function open() {
  const callbacks: string[] = [];
  const told: [string, News][] = [];
  const waiting: ((error?: Error) => void)[] = [];
  const closing = new AbortController();
  const news = new ConversationNews({
    find: () => {
      const found = callbacks.map((one) => ({ id: one, nextSeq: 1 }));
      const { promise, resolve, reject } = Promise.withResolvers<typeof found>();
      waiting.push((error) => (error ? reject(error) : resolve(found)));
      return promise;
    },
    tell: (_, callback, given) => told.push([callback.id, given]),
    logger: pino({ level: "silent" }),
    signal: closing.signal,
    retryMs: 1,
  });
  return { news, callbacks, told, waiting, closing };
}

test("news of a conversation gather while one look-up runs, and the next one finds new callbacks", async () => {
  const { news, callbacks, told, waiting } = open();
  callbacks.push("first");
  news.add(id, record);
  callbacks.push("second");
  for (const one of [record, end, change]) news.add(id, one);
  expect(waiting).toHaveLength(1);
  waiting[0]!();
  await expect.poll(() => waiting.length).toBe(2);
  expect(told).toEqual([["first", record]]);
  waiting[1]!();
  await news.idle();
  const rest = { records: 2, urgent: true, changed: true };
  expect(told.slice(1)).toEqual([
    ["first", rest],
    ["second", rest],
  ]);
  expect(waiting).toHaveLength(2);
});

test("a failed look-up is repeated with all news, until the server ends", async () => {
  const { news, callbacks, told, waiting, closing } = open();
  callbacks.push("only");
  news.add(id, record);
  waiting[0]!(new Error("The store is away."));
  news.add(id, end);
  await expect.poll(() => waiting.length).toBe(2);
  waiting[1]!();
  await news.idle();
  expect(told).toEqual([["only", { records: 2, urgent: true, changed: false }]]);
  news.add(id, record);
  closing.abort();
  waiting[2]!(new Error("The store is away."));
  await news.idle();
  expect(waiting).toHaveLength(3);
});
