import type { ClaimedSandbox, ClaimRequest, NodeRow, NodeStore, SandboxOwner } from "../node-store.ts";
import { type Database, toQuery } from "./database.ts";
import type { PostgresValue } from "./parameters.ts";

/** How long the row of a node that has ended stays, so that its place counts as seen. */
const keptAfterEnd = "interval '1 day'";

interface StoredNode {
  incarnation: string;
  url: string;
  place: string | null;
  version: string;
  draining: boolean;
}

const isLive = "n.expires_at > clock_timestamp()";

/**
 * Sandboxes that need an owner: they run or start, or a conversation of theirs runs, starts or has
 * a goal. Those that rest are claimed by their first use.
 */
const needsOwner = `(s.status IN ('STARTING', 'RUNNING')
  OR EXISTS (SELECT 1 FROM conversations c WHERE c.sandbox_id = s.id
    AND (c.execution_status = 'running' OR c.goal_status = 'running') AND NOT c.external)
  OR EXISTS (SELECT 1 FROM start_tasks t WHERE t.sandbox_id = s.id AND t.status NOT IN ('READY', 'ERROR')))`;

/**
 * One statement claims sandboxes and their conversations. The row locks make it wait for appends
 * that the former owner has begun, and make those that come later fail. A node that has just joined
 * does not know how long the other places have been away.
 */
const claimStatement = `WITH claimer AS (
    SELECT n.incarnation, n.place, n.started_at FROM nodes n WHERE n.incarnation = $1 AND ${isLive} AND NOT n.draining
  ), candidates AS (
    SELECT s.number FROM sandboxes s, claimer
    WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.incarnation = s.owner AND ${isLive})
      AND (s.place IS NULL OR s.place = claimer.place OR (claimer.place IS NOT NULL
        AND claimer.started_at <= clock_timestamp() - $4::double precision * interval '1 millisecond'
        AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.place = s.place
          AND n.expires_at > clock_timestamp() - $4::double precision * interval '1 millisecond')))
      AND CASE WHEN $2::text[] IS NULL THEN ${needsOwner} ELSE s.id = ANY ($2) END
    ORDER BY s.number LIMIT $3
    FOR UPDATE OF s SKIP LOCKED
  ), claimed AS (
    UPDATE sandboxes s SET owner = claimer.incarnation, epoch = s.epoch + 1,
      place = CASE WHEN s.place IS NULL THEN NULL ELSE claimer.place END
    FROM candidates, claimer WHERE s.number = candidates.number
    RETURNING s.number, s.id, s.epoch, s.owner
  ), followed AS (
    UPDATE conversations c SET owner = claimed.owner, epoch = claimed.epoch
    FROM claimed WHERE c.sandbox_id = claimed.id
  )
  SELECT id, epoch FROM claimed ORDER BY number`;

const releaseStatement = `WITH released AS (
    UPDATE sandboxes SET owner = NULL WHERE owner = $1 AND ($2::text[] IS NULL OR id = ANY ($2)) RETURNING id
  )
  UPDATE conversations c SET owner = NULL FROM released WHERE c.sandbox_id = released.id AND c.owner = $1`;

/** The nodes and the owners of sandboxes, by the clock of the database. */
export class PostgresNodes implements NodeStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async join({ incarnation, url, place, version, isDraining }: NodeRow, leaseMs: number): Promise<void> {
    await this.#write(`DELETE FROM nodes WHERE expires_at < clock_timestamp() - ${keptAfterEnd}`, []);
    const sql = `INSERT INTO nodes (incarnation, url, place, version, draining, expires_at)
      VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6::double precision * interval '1 millisecond')`;
    await this.#write(sql, [incarnation, url, place, version, isDraining, leaseMs]);
  }

  async renew(
    { incarnation, isDraining }: Pick<NodeRow, "incarnation" | "isDraining">,
    leaseMs: number,
  ): Promise<boolean> {
    const sql = `UPDATE nodes n SET draining = $2,
        expires_at = clock_timestamp() + $3::double precision * interval '1 millisecond'
      WHERE n.incarnation = $1 AND ${isLive}`;
    return (await this.#write(sql, [incarnation, isDraining, leaseMs])) > 0;
  }

  async leave(incarnation: string): Promise<void> {
    // From here on its appends are refused, so the release need not be in the same transaction.
    await this.#write(
      "UPDATE nodes SET expires_at = least(expires_at, clock_timestamp()) WHERE incarnation = $1",
      [incarnation],
    );
    await this.#write(releaseStatement, [incarnation, null]);
  }

  async list(): Promise<NodeRow[]> {
    const sql = `SELECT incarnation, url, place, version, draining FROM nodes n WHERE ${isLive} ORDER BY started_at, incarnation`;
    return (await this.#database.read<StoredNode>(sql, [], true)).map(fromStored);
  }

  async claim({ incarnation, ids, limit, lostAfterMs }: ClaimRequest): Promise<ClaimedSandbox[]> {
    const values = [incarnation, ids ? [...ids] : null, limit, lostAfterMs];
    return this.#database.use(
      async (connection) =>
        (await connection.query<ClaimedSandbox>(toQuery(claimStatement, values, true))).rows,
    );
  }

  async release(incarnation: string, ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#write(releaseStatement, [incarnation, [...ids]]);
  }

  async findOwner(sandboxId: string): Promise<SandboxOwner | undefined> {
    const sql = `SELECT s.place AS sandbox_place, n.incarnation, n.url, n.place, n.version, n.draining
      FROM sandboxes s LEFT JOIN nodes n ON n.incarnation = s.owner AND ${isLive} WHERE s.id = $1`;
    type Found = Partial<StoredNode> & { sandbox_place: string | null; incarnation: string | null };
    const [found] = await this.#database.read<Found>(sql, [sandboxId], true);
    if (!found) return undefined;
    const node = found.incarnation === null ? undefined : fromStored(found as StoredNode);
    return { node, place: found.sandbox_place };
  }

  async #write(sql: string, values: readonly PostgresValue[]): Promise<number> {
    return this.#database.use(
      async (connection) => (await connection.query(toQuery(sql, values, true))).rowCount ?? 0,
    );
  }
}

function fromStored({ draining, ...node }: StoredNode): NodeRow {
  const { incarnation, url, place, version } = node;
  return { incarnation, url, place, version, isDraining: draining };
}
