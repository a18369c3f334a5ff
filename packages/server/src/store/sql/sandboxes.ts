import { PlatformError } from "@sandpiper/core/errors";
import { type PageRequest, type PageResult, pageOffset, toPage } from "@sandpiper/core/paging";
import type { SandboxChange, SandboxRow, SandboxStore } from "@sandpiper/sandbox/sandbox-store";
import type { Selectable } from "kysely";
import type { SqlContext } from "./context.ts";
import { compile, type SandboxRecord } from "./tables.ts";

type Stored = Selectable<SandboxRecord>;

export const sandboxQueries = {
  get: "SELECT * FROM sandboxes WHERE id = ?",
  search: "SELECT * FROM sandboxes WHERE user_id = ? ORDER BY created_at DESC, number DESC LIMIT ? OFFSET ?",
} as const;

/** Sandboxes. The key from which callers' session keys are made is encrypted. */
export class SqlSandboxes implements SandboxStore {
  readonly #context: SqlContext;

  constructor(context: SqlContext) {
    this.#context = context;
  }

  async create(row: SandboxRow): Promise<void> {
    const insert = this.#context.build.insertInto("sandboxes").values({
      id: row.id,
      user_id: row.userId,
      spec_id: row.specId,
      status: row.status,
      status_detail: row.statusDetail,
      incarnation: row.incarnation,
      session_key: this.#context.vault.encrypt(row.sessionKey, keyPlace(row.id)),
      created_at: row.createdAt,
      spec: specText(row.spec),
      prepared: Number(row.prepared),
      snapshot_id: row.snapshotId,
      last_used_at: row.lastUsedAt,
    });
    await this.#context.writer.run(compile(insert));
  }

  async update(id: string, change: SandboxChange): Promise<void> {
    const columns = {
      ...(change.status !== undefined && { status: change.status }),
      ...(change.statusDetail !== undefined && { status_detail: change.statusDetail }),
      ...(change.incarnation !== undefined && { incarnation: change.incarnation }),
      ...(change.spec !== undefined && { spec: specText(change.spec) }),
      ...(change.prepared !== undefined && { prepared: Number(change.prepared) }),
      ...(change.snapshotId !== undefined && { snapshot_id: change.snapshotId }),
      ...(change.lastUsedAt !== undefined && { last_used_at: change.lastUsedAt }),
    };
    // An UPDATE needs at least one column.
    const update = this.#context.build
      .updateTable("sandboxes")
      .set({ id, ...columns })
      .where("id", "=", id);
    const { writer } = this.#context;
    const write = change.status === "PAUSED" ? writer.release(compile(update)) : writer.run(compile(update));
    if ((await write) === 0) {
      throw new PlatformError("StoredSandboxMissing");
    }
  }

  async get(id: string): Promise<SandboxRow | undefined> {
    const stored = await this.#context.reader.get<Stored>(sandboxQueries.get, id);
    return stored && this.#fromStored(stored);
  }

  async search(filter: { userId: string }, page: PageRequest): Promise<PageResult<SandboxRow>> {
    const offset = pageOffset(page.pageId);
    const rows = await this.#context.reader.all<Stored>(
      sandboxQueries.search,
      filter.userId,
      page.limit + 1,
      offset,
    );
    const { items, nextPageId } = toPage(rows, page);
    return { items: items.map((stored) => this.#fromStored(stored)), nextPageId };
  }

  async all(): Promise<SandboxRow[]> {
    return (await this.#context.reader.all<Stored>("SELECT * FROM sandboxes ORDER BY number")).map((stored) =>
      this.#fromStored(stored),
    );
  }

  async remove(id: string): Promise<void> {
    await this.#context.writer.release(
      compile(this.#context.build.deleteFrom("sandboxes").where("id", "=", id)),
    );
  }

  #fromStored(stored: Stored): SandboxRow {
    return {
      id: stored.id,
      userId: stored.user_id,
      specId: stored.spec_id,
      status: stored.status,
      statusDetail: stored.status_detail,
      incarnation: stored.incarnation,
      sessionKey: this.#context.vault.decrypt(stored.session_key, keyPlace(stored.id)),
      createdAt: stored.created_at,
      spec: stored.spec === null ? null : JSON.parse(stored.spec),
      prepared: Boolean(stored.prepared),
      snapshotId: stored.snapshot_id,
      lastUsedAt: stored.last_used_at,
    };
  }
}

function specText(spec: unknown): string | null {
  return spec === null ? null : JSON.stringify(spec);
}

function keyPlace(sandboxId: string): string {
  return `sandbox-session-key:${sandboxId}`;
}
