import { isDeepStrictEqual } from "node:util";
import { until } from "../support/platform.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { fillWithConversations, temporaryFolder } from "../support/store.ts";
import { Follower, type Way } from "./follower.ts";

const ways: Way[] = ["after_timestamp", "after_seq", "Last-Event-ID"];
const conversations = 5;
const rounds = 2;

/** The result. */
export interface KillResult {
  /** Stored events, and how often one was delivered. */
  events: number;
  deliveries: number;
  /** Followers that missed an event, had one twice, or in another order. */
  wrong: number;
  /** From the last start of the server until every follower had all, ms. */
  completeMs: number;
}

/**
 * Kills a server (SIGKILL) while it sends events to `clients` followers, restarts it, and
 * reconnects them in each way of resuming; does this twice.
 */
export async function killUnderFollowers(clients: number): Promise<KillResult> {
  const folder = temporaryFolder();
  const ids = await fillWithConversations(folder.dir, conversations);
  const followers = Array.from({ length: clients }, (_, index) => {
    const conversation = ids[index % ids.length]!;
    return { conversation, follower: new Follower(conversation, ways[index % ways.length]!) };
  });
  for (let round = 0; round < rounds; round++) {
    const server = await startServerProcess(folder.dir, { SANDPIPER_MAX_REQUESTS: "100000" });
    const writers = ids.map((id) => write(id, server.url, server.key));
    const connections = followers.map(({ follower }) => follower.follow(server));
    await Promise.all(connections.map(({ opened }) => opened));
    const before = followers.map(({ follower }) => follower.ids.length);
    // It is killed while all of them get events.
    await until(
      () => followers.every(({ follower }, index) => follower.ids.length >= before[index]! + 10) || undefined,
    );
    await server.end("SIGKILL");
    await Promise.all([...writers, ...connections.map(({ ended }) => ended)]);
  }
  const server = await startServerProcess(folder.dir);
  try {
    const begin = performance.now();
    for (const { follower } of followers) void follower.follow(server);
    const stored = new Map(
      await Promise.all(ids.map(async (id) => [id, await storedIds(server, id)] as const)),
    );
    const has = ({ conversation, follower }: (typeof followers)[number]) =>
      follower.ids.length >= stored.get(conversation)!.length;
    await until(() => followers.every(has) || undefined);
    const completeMs = performance.now() - begin;
    const wrong = followers.filter(
      (one) => !isDeepStrictEqual(one.follower.ids, stored.get(one.conversation)),
    ).length;
    const deliveries = followers.reduce((sum, { follower }) => sum + follower.ids.length, 0);
    const events = [...stored.values()].reduce((sum, list) => sum + list.length, 0);
    for (const { follower } of followers) follower.end();
    return { events, deliveries, wrong, completeMs };
  } finally {
    await server.end("SIGTERM");
    folder.remove();
  }
}

/** Sends messages one after the other until the server is gone. */
async function write(id: string, url: string, key: string): Promise<void> {
  const body = JSON.stringify({
    role: "user",
    content: [{ type: "text", text: "One more thing." }],
    run: false,
  });
  const headers = { "x-session-api-key": key, "content-type": "application/json" };
  for (;;) {
    try {
      const answer = await fetch(`${url}/api/conversations/${id}/events`, { method: "POST", headers, body });
      if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
      await answer.text();
    } catch (error) {
      if (error instanceof TypeError) return;
      throw error;
    }
  }
}

async function storedIds(server: ServerProcess, id: string): Promise<string[]> {
  const all: string[] = [];
  let page: string | null = null;
  do {
    const query: string = page === null ? "" : `&page_id=${page}`;
    const { body } = await server.call("GET", `/api/v1/conversation/${id}/events/search?limit=100${query}`);
    all.push(...body.items.map((event: { id: string }) => event.id));
    page = body.next_page_id;
  } while (page !== null);
  return all;
}
