import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { startTestPlatform } from "./support/platform.ts";
import { type PostgresServer, startPostgres } from "./support/postgres.ts";
import { conversationRow } from "./support/store.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());

test("a page of conversations takes as many statements as one conversation, however many it has", async () => {
  const url = await server.createDatabase();
  const platform = await startTestPlatform({ database: { from: "variable", url } });
  const { store } = platform.platform;
  const add = async () => {
    const row = conversationRow({ sandboxId: randomUUID() });
    await store.conversations.create(row);
    await store.sandboxes.create({
      ...{ id: row.sandboxId, userId: "default", specId: "host", status: "PAUSED", statusDetail: null },
      ...{ incarnation: "1", sessionKey: "key", createdAt: 1, spec: null, prepared: true },
      ...{ snapshotId: null, lastUsedAt: Date.now() },
    });
  };
  const reads = vi.spyOn(pg.Client.prototype, "query");
  const countStatements = async (length: number) => {
    reads.mockClear();
    const { status, body } = await platform.call("GET", "/api/v1/app-conversations/search?limit=100");
    expect(status).toBe(200);
    expect(body.items).toHaveLength(length);
    const texts = reads.mock.calls.map(([query]) => (query as { text?: string }).text ?? String(query));
    return texts.filter((text) => /\b(conversations|sandboxes|settings)\b/.test(text));
  };
  try {
    await add();
    const one = await countStatements(1);
    for (let index = 1; index < 40; index++) await add();
    const many = await countStatements(40);
    expect(one.length).toBeGreaterThan(0);
    expect(many.length, many.join("\n")).toBeLessThanOrEqual(Math.max(one.length, 5));
  } finally {
    reads.mockRestore();
    await platform.stop();
  }
});
