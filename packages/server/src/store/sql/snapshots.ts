import { PlatformError } from "@sandpiper/core/errors";
import { type PageRequest, type PageResult, pageOffset, toPage } from "@sandpiper/core/paging";
import type { SnapshotRow, SnapshotStore } from "@sandpiper/sandbox/sandbox-store";
import type { Selectable } from "kysely";
import type { SqlContext } from "./context.ts";
import type { WriteLimit } from "./engine.ts";
import { compile, type SnapshotRecord } from "./tables.ts";

type Stored = Selectable<SnapshotRecord>;

export const snapshotQueries = {
  get: "SELECT * FROM snapshots WHERE id = ?",
  search: "SELECT * FROM snapshots WHERE user_id = ? ORDER BY created_at DESC, number DESC LIMIT ? OFFSET ?",
  count: "SELECT count(*) AS count FROM snapshots WHERE user_id = ?",
  isFull: "SELECT 1 FROM snapshots WHERE user_id = ? LIMIT 1 OFFSET ?",
} as const;

export class SqlSnapshots implements SnapshotStore {
  readonly #context: SqlContext;

  constructor(context: SqlContext) {
    this.#context = context;
  }

  async create(row: SnapshotRow, max = 0): Promise<void> {
    const insert = this.#context.build.insertInto("snapshots").values({
      id: row.id,
      user_id: row.userId,
      sandbox_id: row.sandboxId,
      spec: JSON.stringify(row.spec),
      created_at: row.createdAt,
    });
    // The files of the snapshot are there: without this record they would be lost.
    const { writer } = this.#context;
    if (max === 0) await writer.release(compile(insert));
    else await writer.addWithin(limitOf(row.userId, max), compile(insert));
  }

  async get(id: string): Promise<SnapshotRow | undefined> {
    const stored = await this.#context.reader.get<Stored>(snapshotQueries.get, id);
    return stored && fromStored(stored);
  }

  async search(filter: { userId: string }, page: PageRequest): Promise<PageResult<SnapshotRow>> {
    const offset = pageOffset(page.pageId);
    const rows = await this.#context.reader.all<Stored>(
      snapshotQueries.search,
      filter.userId,
      page.limit + 1,
      offset,
    );
    return toPage(rows.map(fromStored), page);
  }

  async count({ userId }: { userId: string }): Promise<number> {
    return (await this.#context.reader.get<{ count: number }>(snapshotQueries.count, userId))!.count;
  }

  async ids(): Promise<string[]> {
    return (await this.#context.reader.all<{ id: string }>("SELECT id FROM snapshots ORDER BY number")).map(
      ({ id }) => id,
    );
  }

  async owners(): Promise<{ id: string; userId: string }[]> {
    return await this.#context.reader.all('SELECT id, user_id AS "userId" FROM snapshots ORDER BY number');
  }

  async remove(id: string): Promise<void> {
    await this.#context.writer.release(
      compile(this.#context.build.deleteFrom("snapshots").where("id", "=", id)),
    );
  }
}

function limitOf(userId: string, max: number): WriteLimit {
  return {
    userId,
    full: { sql: snapshotQueries.isFull, parameters: [userId, max - 1] },
    refuse: () => new PlatformError("TooManyUserSnapshots", { max }),
    countsBytes: false,
    usesReserve: true,
  };
}

function fromStored(stored: Stored): SnapshotRow {
  return {
    id: stored.id,
    userId: stored.user_id,
    sandboxId: stored.sandbox_id,
    spec: JSON.parse(stored.spec),
    createdAt: stored.created_at,
  };
}
