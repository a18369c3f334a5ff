import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { ConversationRow } from "@sandpiper/server/store/conversation-store";
import { conversationRow, message, openStore } from "@sandpiper/server/test/support/store";
import { startAppends } from "./appends.ts";
import { load } from "./load.ts";
import { figures, type Row, single } from "./measure.ts";
import { startProgram, stopProgram } from "./process.ts";
import { type BenchServer, startBenchServer } from "./server-process.ts";

const floorHttp = fileURLToPath(new URL("./floor-http.ts", import.meta.url));
const rounds = 25;
const pressure = { connections: 16, ms: 300 };
const small = { conversations: 2_000, events: 10_000 };
const factor = 10;
/** Messages a second to each server, in turn to its newest conversations (first page). */
const writes = { perSecond: 50, conversations: 10 };

interface Figures {
  rate: number[];
  latencies: number[];
}

interface Filled extends BenchServer {
  /** The conversation with the events; the oldest. */
  long: string;
  newest: string[];
}

/**
 * Reads of a separate server, compared with plain `node:http` sending the same bytes and with ten
 * times the data: first of idle servers, then while agents write.
 */
export async function benchApi(): Promise<Row[]> {
  const few = await filledServer(1);
  const many = await filledServer(factor);
  const conversations = `first page of ${small.conversations.toLocaleString("en")} conversations`;
  const events = `page of 100 out of ${small.events.toLocaleString("en")} events`;
  const reads = async (beside: string) => [
    ...(await read(`GET /api/settings${beside}`, "/api/settings", few)),
    ...(await read(conversations + beside, "/api/v1/app-conversations/search?limit=100", few, many)),
    ...(await read(
      events + beside,
      eventsPath(few.long, small.events),
      few,
      many,
      eventsPath(many.long, small.events * factor),
    )),
  ];
  try {
    const quiet = await reads("");
    const ends = [few, many].map((server) => startAppends(server, server.newest, writes.perSecond));
    const busy = await reads(`, beside ${writes.perSecond} appends/s`).finally(() =>
      Promise.all(ends.map((end) => end())),
    );
    return [...quiet, ...busy];
  } finally {
    await few.end();
    await many.end();
  }
}

/** A page in the middle, where an offset would be expensive. */
function eventsPath(id: string, events: number): string {
  return `/api/v1/conversation/${id}/events/search?limit=100&page_id=${events / 2}`;
}

/** Rates of a read, alternating with its floor and the larger server, so that load affects all. */
async function read(
  name: string,
  path: string,
  few: BenchServer,
  many?: BenchServer,
  manyPath = path,
): Promise<Row[]> {
  const body = Buffer.from(await (await fetch(few.url + path, { headers: few.headers })).arrayBuffer());
  const folder = mkdtempSync(join(tmpdir(), "sandpiper-bench-"));
  const file = join(folder, "body.json");
  writeFileSync(file, body);
  const floor = await startProgram([floorHttp], { BODY_FILE: file }, /\d+/);
  const places = [
    { url: new URL(few.url + path), headers: few.headers },
    { url: new URL(`http://127.0.0.1:${floor.match[0]}${path}`), headers: few.headers },
    ...(many ? [{ url: new URL(many.url + manyPath), headers: many.headers }] : []),
  ];
  const results = places.map((): Figures => ({ rate: [], latencies: [] }));
  try {
    // The first round warms all up.
    for (let round = -1; round < rounds; round++) {
      for (const [index, { url, headers }] of places.entries()) {
        const { rate, latencies } = await load(url, headers, pressure);
        if (round < 0) continue;
        results[index]!.rate.push(rate);
        for (const latency of latencies) results[index]!.latencies.push(latency);
      }
    }
  } finally {
    await stopProgram(floor.child);
    rmSync(folder, { recursive: true });
  }
  return rows(`${name} (${(body.length / 1024).toFixed(0)} KB)`, results[0]!, results[1]!, results[2]);
}

function rows(name: string, ours: Figures, floor: Figures, more?: Figures): Row[] {
  const [rate, bare] = [figures(ours.rate), figures(floor.rate)];
  const plain = "plain node:http, same bytes";
  const result: Row[] = [
    {
      ...{
        name,
        unit: "requests/s",
        figures: rate,
        target: ">= 0.4 x floor",
        met: rate.p50 >= 0.4 * bare.p50,
      },
      floor: { name: plain, figures: bare },
    },
    {
      ...{
        name: `${name}, each of ${pressure.connections} at once`,
        unit: "ms",
        figures: figures(ours.latencies),
      },
      ...{ floor: { name: plain, figures: figures(floor.latencies) }, target: "-", met: true },
    },
  ];
  if (!more) return result;
  // Of turns that follow each other: what else the machine does changes slower than they do.
  const ratio = figures(ours.rate.map((value, round) => value / more.rate[round]!)).p50;
  const slower: Row = {
    name: `${name}, time with ${factor} x the data`,
    unit: "x",
    figures: single(ratio),
    target: "< 1.3",
    met: ratio < 1.3,
  };
  return [...result, slower];
}

async function filledServer(times: number): Promise<Filled> {
  let ids: string[] = [];
  const server = await startBenchServer(async (dir) => {
    ids = await fill(dir, times);
  });
  return { ...server, long: ids[0]!, newest: ids.slice(-writes.conversations) };
}

/**
 * Fills a data folder; returns conversation ids, oldest first; one conversation has the events.
 * Commits are shared, so it takes seconds.
 */
async function fill(dir: string, times: number): Promise<string[]> {
  const store = await openStore(dir);
  const start = Date.now() - small.conversations * times * 1_000;
  const rows = Array.from({ length: small.conversations * times }, (_, index) =>
    conversationRow({ title: `Conversation ${index}`, createdAt: start + index * 1_000 }),
  );
  await Promise.all(
    rows.flatMap((row) => [store.conversations.create(row), store.sandboxes.create(hibernated(row))]),
  );
  const { id } = rows[0]!;
  const text = "The failing test expects the parser to keep trailing white space. ".repeat(5);
  for (let left = small.events * times; left > 0; left -= 1_000) {
    await store.events.append(
      id,
      Array.from({ length: 1_000 }, (_, index) => message(`${left - index}: ${text}`)),
    );
  }
  await store.close();
  return rows.map((row) => row.id);
}

/** A conversation's hibernated sandbox: only its record exists. */
function hibernated({ sandboxId, userId }: Pick<ConversationRow, "sandboxId" | "userId">): SandboxRow {
  const used = { createdAt: Date.now(), lastUsedAt: Date.now(), snapshotId: null };
  const status = {
    status: "PAUSED",
    statusDetail: null,
    incarnation: "1",
    spec: null,
    prepared: false,
  } as const;
  return { id: sandboxId, userId, specId: "host", sessionKey: randomUUID(), ...status, ...used };
}
