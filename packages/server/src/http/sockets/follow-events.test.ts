import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { stub } from "@sandpiper/core/test/support/stub";
import fc from "fast-check";
import { pino } from "pino";
import { expect, test } from "vitest";
import type { Conversations, Follower } from "../../conversations/api.ts";
import type { EventLog } from "../../store/event-log.ts";
import { encodeNumbered } from "./encode.ts";
import { type FollowerSink, followEvents } from "./follow-events.ts";
import type { Resend } from "./handshake.ts";

/** A step of a schedule: something happens, or a read finds its answer, or the answer arrives. */
type Step = "append" | "unlisted" | "notify" | "transient" | "read" | "answer";

/**
 * A conversation whose reads find what is true at one time and arrive at a later one, when the test
 * says so, and whose followers hear of a record some time after it can be read.
 */
class SlowConversation {
  readonly records: LogRecord[] = [];
  readonly #reads: { find: () => void; arrive: () => void; isFound: boolean }[] = [];
  #follower: Follower | undefined;
  #notified = 0;
  /** The status that followers were told or can read, a number that rises. */
  status = 0;

  readonly events = stub<EventLog>({
    lastSeq: () => this.#answer(() => this.records.length),
    read: (_id: string, after: number, limit: number) =>
      this.#answer(() => this.records.slice(after, after + limit)),
  });
  readonly live = stub<Conversations["live"]>({
    follow: (_id: string, follower: Follower) => {
      this.#follower = follower;
      return () => (this.#follower = undefined);
    },
    mayMissEnd: () => undefined,
    fullState: () => this.#answer(() => ({ execution_status: "idle", status: this.status })),
    goal: async () => undefined,
  });

  get isFollowed(): boolean {
    return this.#follower !== undefined;
  }

  append(listed: boolean): void {
    const seq = this.records.length + 1;
    if (!listed) this.status = seq;
    const event = { timestamp: String(seq).padStart(6, "0") };
    const json = JSON.stringify(listed ? { n: seq } : { status: seq });
    this.records.push(stub<LogRecord>({ seq, listed, json, event: event as LogRecord["event"] }));
  }

  /** Tells the follower of the oldest record that it does not know. */
  notify(): void {
    const record = this.records[this.#notified];
    if (!record) return;
    this.#notified++;
    this.#follower?.onFrame(record);
  }

  /** Tells the follower something that is not stored. */
  tell(frame: object = { kind: "Other" }): void {
    this.#follower?.onFrame({ json: JSON.stringify(frame) });
  }

  /** The oldest read that has not found its answer finds what is true now. */
  read(): void {
    const read = this.#reads.find(({ isFound }) => !isFound);
    if (read) read.isFound = true;
    read?.find();
  }

  /** The oldest answer arrives; returns whether something was read. */
  answer(): boolean {
    const read = this.#reads.shift();
    if (read && !read.isFound) read.find();
    read?.arrive();
    return read !== undefined;
  }

  #answer<Value>(read: () => Value): Promise<Value> {
    const { promise, resolve } = Promise.withResolvers<Value>();
    let found: Value;
    this.#reads.push({ find: () => (found = read()), arrive: () => resolve(found), isFound: false });
    return promise;
  }
}

/** A client that takes everything at once. */
function makeSink(): FollowerSink & { frames: Record<string, any>[]; close: () => void } {
  const frames: Record<string, any>[] = [];
  let onClose = (_lost: boolean) => {};
  const sink = {
    frames,
    open: true,
    bufferedBytes: 0,
    write: (bytes: Buffer, taken: () => void) => {
      frames.push(JSON.parse(String(bytes)));
      taken();
    },
    disconnect: () => sink.close(),
    fail: () => sink.close(),
    deleted: () => sink.close(),
    moved: () => sink.close(),
    onClose: (listener: (lost: boolean) => void) => (onClose = listener),
    close: () => {
      sink.open = false;
      onClose(false);
    },
  };
  return sink;
}

const limits = { maxUnsentBytes: 1024 * 1024, maxBufferedBytes: 256 * 1024 };
const logger = pino({ level: "silent" });
const rest = () => new Promise((resolve) => setImmediate(resolve));

function follow(conversation: SlowConversation, sink: FollowerSink, resend: Resend, own = limits) {
  const { events, live } = conversation;
  const services = { conversations: { live }, events, scheduler: new EventLoopScheduler(), logger };
  return followEvents(sink, encodeNumbered, "one", resend, services, own);
}

const kinds = ["append", "unlisted", "notify", "transient", "read", "answer"] as const;
const steps = fc.array(fc.constantFrom<Step>(...kinds), { maxLength: 40 });
const resends = fc.oneof(
  fc.constant<Resend>({ mode: "all" }),
  fc.nat(12).map((seq): Resend => ({ mode: "after", seq })),
  fc.nat(12).map((seq): Resend => ({ mode: "since", timestamp: String(seq).padStart(6, "0") })),
);

test("each event reaches a follower once and in order, however reads, appends and news interleave", async () => {
  const property = fc.asyncProperty(steps, steps, resends, async (before, during, resend) => {
    const conversation = new SlowConversation();
    const run = async (step: Step) => {
      if (step === "append" || step === "unlisted") conversation.append(step === "append");
      else if (step === "notify") conversation.notify();
      else if (step === "transient") conversation.tell();
      else if (step === "read") conversation.read();
      else conversation.answer();
      await rest();
    };
    for (const step of before) await run(step);
    const known = conversation.records.length;
    const sink = makeSink();
    const following = follow(conversation, sink, resend);
    await rest();
    for (const step of during) await run(step);
    // Everything is answered and told in the end.
    for (let more = true; more; await rest()) more = conversation.answer();
    await following;
    for (let more = true; more; await rest()) more = conversation.answer();
    for (const _record of conversation.records) await run("notify");

    const first =
      resend.mode === "all"
        ? 0
        : resend.mode === "after"
          ? resend.seq
          : Number((resend as any).timestamp) - 1;
    const wanted = conversation.records
      .filter(({ seq, listed }) => listed && seq > Math.max(0, first))
      .map(({ seq }) => seq);
    const seen = sink.frames.flatMap(({ n }) => (n === undefined ? [] : [n]));
    // A client may name events that there are not yet: it gets what comes later.
    if (first <= known) expect(seen).toEqual(wanted);
    else expect(seen).toEqual([...new Set(seen)].sort((a, b) => a - b));
    // The state is first, and after it the client learns each later status.
    const [opening] = sink.frames;
    expect(opening).toMatchObject({ key: "full_state" });
    const statuses = sink.frames.flatMap(({ status }) => (status === undefined ? [] : [status]));
    const last = statuses.at(-1) ?? opening!.value.status;
    expect(last).toBe(Math.max(0, ...conversation.records.map(({ seq, listed }) => (listed ? 0 : seq))));
  });
  await fc.assert(property, { numRuns: 300 });
});

test("a state is followed by what changed while it was read, and by nothing that it has", async () => {
  const conversation = new SlowConversation();
  const sink = makeSink();
  const following = follow(conversation, sink, { mode: "none" });
  await rest();
  // Before the end of the log is known.
  conversation.append(false);
  conversation.notify();
  conversation.answer();
  await rest();
  // While the state is read.
  conversation.append(false);
  conversation.append(true);
  conversation.notify();
  conversation.notify();
  conversation.answer();
  await following;
  await rest();
  const [opening, ...later] = sink.frames;
  expect(opening).toMatchObject({ key: "full_state", value: { status: 2 } });
  expect(later).toEqual([
    { seq: 2, status: 2 },
    { seq: 3, n: 3 },
  ]);
});

test("a client that leaves while its state is read is not followed", async () => {
  const conversation = new SlowConversation();
  const sink = makeSink();
  const following = follow(conversation, sink, { mode: "all" });
  await rest();
  expect(conversation.isFollowed).toBe(true);
  sink.close();
  while (conversation.answer()) await rest();
  expect(await following).toBeUndefined();
  expect(conversation.isFollowed).toBe(false);
  expect(sink.frames).toEqual([]);
});

test("more events than a client may have waiting fail a follower whose reads take too long", async () => {
  const conversation = new SlowConversation();
  const sink = makeSink();
  const following = follow(conversation, sink, { mode: "all" }, { ...limits, maxUnsentBytes: 10_000 });
  const failed = expect(following).rejects.toThrow("Too many events");
  await rest();
  for (let index = 0; index < 200; index++) {
    conversation.append(true);
    conversation.notify();
  }
  while (conversation.answer()) await rest();
  await failed;
});

test("a delta that arrives while the state is read is dropped, because its message follows", async () => {
  const conversation = new SlowConversation();
  const sink = makeSink();
  const following = follow(conversation, sink, { mode: "none" });
  await rest();
  conversation.answer();
  await rest();
  conversation.tell({ kind: "StreamingDeltaEvent" });
  conversation.tell({ kind: "Other" });
  while (conversation.answer()) await rest();
  await following;
  await rest();
  expect(sink.frames.map(({ kind }) => kind)).toEqual(["ConversationStateUpdateEvent", "Other"]);
});
