import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import { stub } from "@sandpiper/core/test/support/stub";
import { expect, test } from "vitest";
import type { EventLog } from "../../store/event-log.ts";
import { resendEvents } from "./resend.ts";

test("followers of one log share its pages, and get what was added after another one read them", async () => {
  let length = 250;
  const reads: number[] = [];
  const events = stub<EventLog>({
    async read(_id: string, after: number, limit: number) {
      reads.push(after);
      const count = Math.min(limit, length - after);
      return Array.from({ length: count }, (_, index) => {
        const seq = after + index + 1;
        return stub<LogRecord>({ seq, listed: true, json: `{"n":${seq}}` });
      });
    },
  });
  const follow = async (upTo: number) => {
    const seen: number[] = [];
    await resendEvents(
      events,
      "one",
      0,
      upTo,
      async ({ seq }) => void seen.push(seq!),
      () => true,
      async (work) => work(),
    );
    return seen;
  };
  const all = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
  expect(await follow(250)).toEqual(all(250));
  expect(reads).toEqual([0, 100, 200]);
  length = 260;
  expect(await follow(260)).toEqual(all(260));
  expect(reads).toEqual([0, 100, 200, 200]);
});
