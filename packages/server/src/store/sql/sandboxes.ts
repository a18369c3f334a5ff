import { PlatformError } from "@sandpiper/core/errors";
import { type PageRequest, type PageResult, pageOffset, toPage } from "@sandpiper/core/paging";
import type { SandboxChange, SandboxRow, SandboxStore } from "@sandpiper/sandbox/sandbox-store";
import { type Selectable, sql } from "kysely";
import { ConstraintViolation } from "./constraint-violation.ts";
import type { SqlContext } from "./context.ts";
import type { WriteLimit } from "./engine.ts";
import { compile, type SandboxRecord } from "./tables.ts";

type Stored = Selectable<SandboxRecord>;

export const sandboxQueries = {
  search: "SELECT * FROM sandboxes WHERE user_id = ? ORDER BY created_at DESC, number DESC LIMIT ? OFFSET ?",
  ofUser: "SELECT * FROM sandboxes WHERE user_id = ? ORDER BY created_at, number",
  isFull: "SELECT 1 FROM sandboxes WHERE user_id = ? LIMIT 1 OFFSET ?",
} as const;

/** The columns of the node that creates or changes a sandbox. */
export interface SandboxOwnerColumns {
  /** Incarnation of the node. */
  owner: string;
  /** Place of new sandboxes; null: every node can run them. */
  place: string | null;
}

/** Sandboxes. The key from which callers' session keys are made is encrypted. */
export class SqlSandboxes implements SandboxStore {
  readonly #context: SqlContext;
  readonly #owner: () => SandboxOwnerColumns | undefined;

  /**
   * `owner` returns this node, where several nodes share the store. It throws while this node has
   * no valid lease.
   */
  constructor(context: SqlContext, owner: () => SandboxOwnerColumns | undefined = () => undefined) {
    this.#context = context;
    this.#owner = owner;
  }

  async create(row: SandboxRow, max = 0): Promise<void> {
    const owner = this.#owner();
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
      ...(owner && { ...owner, epoch: firstEpoch }),
    });
    const { writer } = this.#context;
    const write =
      max === 0 ? writer.run(compile(insert)) : writer.addWithin(limitOf(row.userId, max), compile(insert));
    await write.catch((error) => {
      // Another server has created the sandbox for the start that both have.
      if (owner && error instanceof ConstraintViolation)
        throw new PlatformError("EpochPassed", { cause: error });
      throw error;
    });
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
      .where("id", "=", id)
      .where(this.#isOwned());
    const { writer } = this.#context;
    const write = change.status === "PAUSED" ? writer.release(compile(update)) : writer.run(compile(update));
    if ((await write) === 0) throw await this.#refusal(id);
  }

  async get(id: string): Promise<SandboxRow | undefined> {
    const stored = await this.#context.reader.find<Stored>("sandboxes", "id", id);
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

  async listByUser(userId: string): Promise<SandboxRow[]> {
    const rows = await this.#context.reader.all<Stored>(sandboxQueries.ofUser, userId);
    return rows.map((stored) => this.#fromStored(stored));
  }

  async listByIds(ids: readonly string[]): Promise<SandboxRow[]> {
    if (ids.length === 0) return [];
    const select = this.#context.build
      .selectFrom("sandboxes")
      .selectAll()
      .where("id", "in", ids)
      .orderBy("number");
    const rows = await this.#context.reader.select<Stored>(compile(select));
    return rows.map((stored) => this.#fromStored(stored));
  }

  async listIds(): Promise<{ id: string; snapshotId: string | null }[]> {
    return await this.#context.reader.all('SELECT id, snapshot_id AS "snapshotId" FROM sandboxes');
  }

  async remove(id: string): Promise<void> {
    const remove = this.#context.build.deleteFrom("sandboxes").where("id", "=", id).where(this.#isOwned());
    const removed = await this.#context.writer.release(compile(remove));
    if (removed === 0 && this.#owner() && (await this.get(id))) throw new PlatformError("EpochPassed");
  }

  /** A server may change its own sandboxes and those without an owner. */
  #isOwned() {
    const owner = this.#owner();
    return owner ? sql<boolean>`(owner IS NULL OR owner = ${owner.owner})` : sql<boolean>`1 = 1`;
  }

  async #refusal(id: string): Promise<PlatformError> {
    const isOfOther = this.#owner() !== undefined && (await this.get(id)) !== undefined;
    return new PlatformError(isOfOther ? "EpochPassed" : "StoredSandboxMissing");
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

/** Epoch of the first ownership of a sandbox. */
const firstEpoch = 1;

function limitOf(userId: string, max: number): WriteLimit {
  return {
    userId,
    full: { sql: sandboxQueries.isFull, parameters: [userId, max - 1] },
    refuse: () => new PlatformError("TooManyKeptSandboxes", { max }),
    countsBytes: false,
  };
}

function specText(spec: unknown): string | null {
  return spec === null ? null : JSON.stringify(spec);
}

function keyPlace(sandboxId: string): string {
  return `sandbox-session-key:${sandboxId}`;
}
