import { setTimeout as delay } from "node:timers/promises";
import { Health } from "@sandpiper/server/test/isolation/health";
import { killUnderFollowers } from "@sandpiper/server/test/sockets/kill-under-followers";
import { figures, type Row, single } from "./measure.ts";
import { residentMemory } from "./process.ts";
import type { LightSocket } from "./sockets-client.ts";
import { ageOf } from "./sockets-drive.ts";
import { type EventServer, startEventServers } from "./sockets-processes.ts";

const conversations = 100;
const sockets = 1_000;
const length = 200;
const bareName = "bare ws server and plain SQLite";

/**
 * Many sockets, many events and misbehaving clients. The server, the bare floor server and this
 * process (all clients) share the processors, so figures include all of them.
 */
export async function benchSockets(): Promise<Row[]> {
  const { platform, bare } = await startEventServers(conversations);
  const servers = [platform, bare] as const;
  try {
    const silent = closesWithoutKey(platform);
    return [
      ...(await appends(servers)),
      await silent,
      ...(await manySockets(servers)),
      ...(await storm(servers)),
      ...(await fast(servers)),
      ...(await neverReading(servers)),
      ...(await killed()),
    ];
  } finally {
    await platform.end();
    await bare.end();
  }
}

/** A server that is killed and started again under a hundred clients that follow it. */
async function killed(): Promise<Row[]> {
  const { wrong, completeMs } = await killUnderFollowers(100);
  return [
    {
      name: "followers of 100 with a missed or doubled event after kill -9",
      unit: "count",
      figures: single(wrong),
      target: "0",
      met: wrong === 0,
    },
    {
      ...{
        name: "they come again: all have what they missed",
        unit: "s",
        figures: single(completeMs / 1000),
        target: "< 5 s",
      },
      met: completeMs < 5_000,
    },
  ];
}

/** Opens sockets, of which `ages` then holds how old each event was when it came, ms. */
async function follow(server: EventServer, count: number): Promise<{ ages: number[]; end(): void }> {
  const ages: number[] = [];
  const all = await join(server, count, (payload) => {
    const age = ageOf(payload);
    if (age !== undefined) ages.push(age);
  });
  return { ages, end: () => all.map((socket) => socket.end()) };
}

async function join(
  server: EventServer,
  count: number,
  onFrame: (payload: Buffer) => void,
): Promise<LightSocket[]> {
  const all = Array.from({ length: count }, (_, index) => server.open(index, onFrame));
  await Promise.all(all.map(({ opened }) => opened));
  return all;
}

/** Waits until as many frames have come as were sent. */
async function arrived(ages: readonly number[], count: number): Promise<void> {
  const end = performance.now() + 30_000;
  while (ages.length < count) {
    if (performance.now() > end) throw new Error(`${ages.length} frames came, ${count} were sent.`);
    await delay(5);
  }
}

/** Events per second that become durable, as many at once as a thousand agents would append. */
async function appends(servers: readonly [EventServer, EventServer]): Promise<Row[]> {
  const rates: number[][] = [[], []];
  for (let round = 0; round < 5; round++) {
    for (const [which, server] of servers.entries()) {
      const { events, ms } = await server.send({
        perSecond: 0,
        atOnce: sockets,
        ms: 1_000,
        conversations,
        length,
        store: true,
      });
      rates[which]!.push((events * 1000) / ms);
    }
  }
  const rate = figures(rates[0]!);
  return [
    {
      ...{
        name: `events appended to ${conversations} conversations`,
        unit: "per s",
        figures: rate,
        target: ">= 10,000",
      },
      ...{ floor: { name: "plain SQLite, one table", figures: figures(rates[1]!) }, met: rate.p50 >= 10_000 },
    },
  ];
}

/** Sockets that bring no key. */
async function closesWithoutKey(platform: EventServer): Promise<Row> {
  const times = await Promise.all(
    Array.from({ length: 100 }, async (_, index) => {
      const socket = platform.open(index, () => {}, { key: false });
      const begin = performance.now();
      const { code } = await socket.closed;
      if (code !== 4001) throw new Error(`A socket without a key was closed with ${code}.`);
      return (performance.now() - begin) / 1000;
    }),
  );
  const figure = figures(times);
  return {
    name: "100 sockets that never authenticate: closed after",
    unit: "s",
    figures: figure,
    target: "<= 11 s",
    met: figure.p99 <= 11,
  };
}

/** Memory and delivery of a thousand sockets, ten to a conversation. */
async function manySockets(servers: readonly [EventServer, EventServer]): Promise<Row[]> {
  const memory: number[] = [];
  const ages: number[][] = [];
  for (const server of servers) {
    // One-time costs of the first sockets belong to the server.
    (await follow(server, sockets / 10)).end();
    await delay(1_000);
    const before = residentMemory(server.pid);
    const followers = await follow(server, sockets);
    await delay(1_000);
    memory.push((residentMemory(server.pid) - before) / sockets / 1024);
    const { events } = await server.send({ perSecond: 500, ms: 5_000, conversations, length, store: true });
    await arrived(followers.ages, (events * sockets) / conversations);
    ages.push(followers.ages);
    followers.end();
    await delay(500);
  }
  const delivery = figures(ages[0]!);
  return [
    {
      ...{
        name: `memory of each of ${sockets} sockets on ${conversations} conversations`,
        unit: "KB",
        figures: single(memory[0]!),
      },
      ...{
        floor: { name: "bare ws server", figures: single(memory[1]!) },
        target: "< 64 KB",
        met: memory[0]! < 64,
      },
    },
    {
      ...{ name: "append of 500 events/s to their 5,000 arrivals/s there", unit: "ms", figures: delivery },
      ...{
        floor: { name: bareName, figures: figures(ages[1]!) },
        target: "p99 < 50 ms",
        met: delivery.p99 < 50,
      },
    },
  ];
}

/** A thousand sockets lose their connection, reconnect at once and ask for the last 50 events. */
async function storm(servers: readonly [EventServer, EventServer]): Promise<Row[]> {
  const missed = 50;
  const seconds: number[][] = [[], []];
  const descriptors: number[] = [];
  const watchers = servers.map(({ url }) => new Health(url));
  const times: number[][] = [[], []];
  try {
    for (const [which, server] of servers.entries()) {
      const health = watchers[which]!;
      const seqs = await lastNumbers(server);
      let before: number | undefined;
      for (let round = 0; round < 3; round++) {
        await health.look();
        for (const socket of await join(server, sockets, () => {})) socket.end();
        const begin = performance.now();
        const all = Array.from({ length: sockets }, (_, index) => {
          const query = which === 0 ? `?after_seq=${seqs[index % conversations]! - missed}` : "";
          const { promise, resolve } = Promise.withResolvers<void>();
          let frames = 0;
          // The bare server sends one frame, the platform its state and the resend.
          const expected = which === 0 ? missed + 1 : 1;
          const socket = server.open(index, () => ++frames === expected && resolve(), { query });
          return { socket, complete: promise };
        });
        await Promise.all(all.map(({ complete }) => complete));
        seconds[which]!.push((performance.now() - begin) / 1000);
        times[which]!.push((await health.look()).p99);
        for (const { socket } of all) socket.end();
        await delay(1_000);
        before ??= server.descriptors();
        descriptors[which] = server.descriptors() - before;
      }
    }
  } finally {
    for (const health of watchers) health.end();
  }
  const all = figures(seconds[0]!);
  const slowest = figures(times[0]!);
  const floorHealth = figures(times[1]!);
  return [
    {
      ...{
        name: `${sockets} sockets come again at once: all have their ${missed} missed events`,
        unit: "s",
        figures: all,
      },
      ...{
        floor: { name: "bare ws server, without any", figures: figures(seconds[1]!) },
        target: "< 5 s",
        met: all.p99 < 5,
      },
    },
    {
      ...{
        name: "/health meanwhile, p99 of each storm",
        unit: "ms",
        figures: slowest,
        target: "<= 2 x floor",
      },
      ...{
        floor: { name: "bare http server, same storm", figures: floorHealth },
        met: slowest.p50 <= 2 * floorHealth.p50,
      },
    },
    {
      ...{ name: "descriptors that 2,000 of these leave", unit: "count", figures: single(descriptors[0]!) },
      ...{ target: "<= 2", met: descriptors[0]! <= 2 },
    },
  ];
}

/** The number of the last event of each conversation; none for a bare server. */
async function lastNumbers(server: EventServer): Promise<number[]> {
  return Promise.all(
    Array.from(
      { length: conversations },
      (_, index) =>
        new Promise<number>((resolve) => {
          const socket = server.open(
            index,
            (payload) => {
              resolve(Number(/^\{"seq":(\d+)/.exec(payload.toString("latin1", 0, 40))?.[1] ?? 0));
              socket.end();
            },
            { query: "?after_seq=999999999" },
          );
        }),
    ),
  );
}

/** Ten thousand events a second, each to one socket. */
async function fast(servers: readonly [EventServer, EventServer]): Promise<Row[]> {
  const ages: number[][] = [[], []];
  const followers = [await follow(servers[0], conversations), await follow(servers[1], conversations)];
  let rate = 0;
  for (let round = 0; round < 3; round++) {
    for (const [which, server] of servers.entries()) {
      const { ages: own } = followers[which]!;
      const before = own.length;
      const { events, ms } = await server.send({
        perSecond: 10_000,
        ms: 3_000,
        conversations,
        length,
        store: true,
      });
      await arrived(own, before + events);
      if (which === 0) rate = Math.max(rate, (events * 1000) / ms);
    }
  }
  for (const [which, follower] of followers.entries()) {
    ages[which] = follower.ages;
    follower.end();
  }
  const own = figures(ages[0]!);
  return [
    {
      ...{
        name: "10,000 events/s, append to arrival",
        unit: "ms",
        figures: own,
        target: "p99 < 50 ms",
        met: own.p99 < 50,
      },
      floor: { name: bareName, figures: figures(ages[1]!) },
    },
  ];
}

/** Twenty sockets on two conversations, alone and with a non-reading socket on each. */
async function neverReading([platform]: readonly [EventServer, EventServer]): Promise<Row[]> {
  const order = { perSecond: 1_000, ms: 6_000, conversations: 2, length: 8_000 };
  const run = async (stuck: number) => {
    const all: number[] = [];
    const take = (payload: Buffer) => {
      const age = ageOf(payload);
      if (age !== undefined) all.push(age);
    };
    const readers = Array.from({ length: 20 }, (_, index) => platform.open(index % 2, take));
    const slow = Array.from({ length: stuck }, (_, index) => platform.open(index, () => {}));
    await Promise.all([...readers, ...slow].map(({ opened }) => opened));
    for (const { connection } of slow) connection.pause();
    const { events } = await platform.send(order);
    await arrived(all, events * 10);
    for (const { connection } of slow) connection.resume();
    for (const { closed } of slow) {
      const { code, reason } = await closed;
      if (code !== 1013 || !/after_seq=[1-9]/.test(reason))
        throw new Error(`A socket that never reads ended with ${code} ${reason}`);
    }
    for (const socket of readers) socket.end();
    return all;
  };
  const quiet = figures(await run(0));
  const beside = figures(await run(2));
  return [
    {
      ...{
        name: "delivery beside sockets that never read",
        unit: "ms",
        figures: beside,
        target: "p99 < 1.5 x floor p99 + 10 ms",
      },
      ...{
        floor: { name: "the same without these", figures: quiet },
        met: beside.p99 < 1.5 * quiet.p99 + 10,
      },
    },
  ];
}
