import { randomUUID } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { conversationRow, openStore, temporaryFolder } from "../../src/store/testing.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { Follower, type Way } from "./follower.ts";

const folder = temporaryFolder();
let server: ServerProcess;
afterAll(async () => {
  await server.end("SIGTERM");
  folder.remove();
});

const ways: Way[] = ["after_timestamp", "after_seq", "Last-Event-ID"];
const conversations = 5;
const clients = 100;

/** Conversations of sandboxes that are hibernated: nothing of them runs. */
async function fill(): Promise<string[]> {
  const store = await openStore(folder.dir);
  const rows = Array.from({ length: conversations }, () => conversationRow());
  const times = { createdAt: Date.now(), lastUsedAt: Date.now() };
  const state = {
    status: "PAUSED",
    statusDetail: null,
    incarnation: "1",
    spec: null,
    prepared: false,
    snapshotId: null,
  } as const;
  for (const row of rows) {
    await store.conversations.create(row);
    const { sandboxId: id, userId } = row;
    await store.sandboxes.create({ id, userId, specId: "host", sessionKey: randomUUID(), ...state, ...times });
  }
  await store.close();
  return rows.map(({ id }) => id);
}

/** Sends messages one after the other until the server is gone. */
async function write(id: string, url: string, key: string): Promise<void> {
  const body = JSON.stringify({ role: "user", content: [{ type: "text", text: "One more thing." }], run: false });
  const headers = { "x-session-api-key": key, "content-type": "application/json" };
  for (;;) {
    try {
      const answer = await fetch(`${url}/api/conversations/${id}/events`, { method: "POST", headers, body });
      expect([answer.status, await answer.text()]).toEqual([200, expect.anything()]);
    } catch (error) {
      if (error instanceof TypeError) return;
      throw error;
    }
  }
}

test("after kill -9 under 100 followers, each that comes again has every event exactly once", async () => {
  const ids = await fill();
  const followers = Array.from({ length: clients }, (_, index) => {
    const conversation = ids[index % ids.length]!;
    return { conversation, follower: new Follower(conversation, ways[index % ways.length]!) };
  });
  for (let round = 0; round < 2; round++) {
    server = await startServerProcess(folder.dir, { SANDPIPER_MAX_REQUESTS: "100000" });
    const writers = ids.map((id) => write(id, server.url, server.key));
    const connections = followers.map(({ follower }) => follower.follow(server));
    await Promise.all(connections.map(({ opened }) => opened));
    const before = followers.map(({ follower }) => follower.ids.length);
    // It is killed while all of them get events.
    await expect
      .poll(() => followers.every(({ follower }, index) => follower.ids.length >= before[index]! + 10), { timeout: 40_000 })
      .toBe(true);
    await server.end("SIGKILL");
    await Promise.all([...writers, ...connections.map(({ ended }) => ended)]);
  }
  server = await startServerProcess(folder.dir);
  for (const { follower } of followers) void follower.follow(server);
  const stored = new Map<string, string[]>();
  for (const id of ids) {
    const all: string[] = [];
    let page: string | null = null;
    do {
      const query: string = page === null ? "" : `&page_id=${page}`;
      const { body } = await server.call("GET", `/api/v1/conversation/${id}/events/search?limit=100${query}`);
      all.push(...body.items.map((event: { id: string }) => event.id));
      page = body.next_page_id;
    } while (page !== null);
    stored.set(id, all);
  }
  for (const { conversation, follower } of followers) {
    await expect.poll(() => follower.ids.length, { timeout: 40_000 }).toBeGreaterThanOrEqual(stored.get(conversation)!.length);
    expect(follower.ids).toEqual(stored.get(conversation));
    follower.end();
  }
}, 120_000);
