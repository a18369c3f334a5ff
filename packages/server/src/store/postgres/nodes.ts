import { PlatformError } from "@sandpiper/core/errors";
import type {
  ClaimedSandbox,
  ClaimRequest,
  NodeLoad,
  NodeRow,
  NodeStore,
  SandboxOwner,
} from "../node-store.ts";
import type { SandboxOwnerColumns } from "../sql/sandboxes.ts";
import { type Database, toQuery } from "./database.ts";
import type { PostgresValue } from "./parameters.ts";

/** How long the row of an ended node stays. The row says when the node's place was last alive. */
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
 * Statement for the sandboxes that need an owner now: sandboxes that run or start, and sandboxes
 * with a conversation that runs, starts or has a goal.
 */
const active = `SELECT number FROM sandboxes WHERE status IN ('STARTING', 'RUNNING')
  UNION SELECT s.number FROM conversations c JOIN sandboxes s ON s.id = c.sandbox_id
    WHERE c.execution_status = 'running' AND NOT c.external
  UNION SELECT s.number FROM conversations c JOIN sandboxes s ON s.id = c.sandbox_id
    WHERE c.goal_status = 'running' AND NOT c.external
  UNION SELECT s.number FROM start_tasks t JOIN sandboxes s ON s.id = t.sandbox_id
    WHERE t.status NOT IN ('READY', 'ERROR')`;

const wanted = {
  active: `s.number IN (${active})`,
  // A node claims a resting sandbox at its first use, or a few resting sandboxes at a time.
  resting: "s.status IN ('PAUSED', 'ERROR')",
  named: "s.id = ANY ($5)",
} as const;

/**
 * Condition for a running conversation whose node has ended without a release. A node that has a
 * place and an expired lease may live, or its machine has failed. Without a place, nobody sees more
 * than the expired lease.
 */
const isUnclean = `c.execution_status = 'running' AND NOT c.external AND c.owner <> claimed.owner
  AND EXISTS (SELECT 1 FROM nodes n WHERE n.incarnation = c.owner AND (n.ended OR n.place IS NULL))`;

/**
 * One statement claims sandboxes with their conversations and open starts. The row locks make it
 * wait for appends that the former owner has begun, and make those that come later fail. A node
 * that has just joined does not know how long the other places have been away.
 */
const claimStatement = (which: keyof typeof wanted) => `WITH claimer AS (
    SELECT n.incarnation, n.place, n.started_at FROM nodes n WHERE n.incarnation = $1 AND ${isLive} AND NOT n.draining
  ), candidates AS (
    SELECT s.number, s.place FROM sandboxes s, claimer
    WHERE (s.owner IS NULL OR s.owner = ANY (ARRAY(SELECT n.incarnation FROM nodes n WHERE NOT (${isLive})))
        OR ($4::text[] IS NOT NULL AND s.owner = $1 AND s.id <> ALL ($4)))
      AND (s.place IS NULL OR s.place = claimer.place OR (claimer.place IS NOT NULL
        AND claimer.started_at <= clock_timestamp() - $3::double precision * interval '1 millisecond'
        AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.place = s.place
          AND n.expires_at > clock_timestamp() - $3::double precision * interval '1 millisecond')))
      AND ${wanted[which]}
    ORDER BY s.number LIMIT $2
    FOR UPDATE OF s SKIP LOCKED
  ), claimed AS (
    UPDATE sandboxes s SET owner = claimer.incarnation, epoch = s.epoch + 1,
      place = CASE WHEN s.place IS NULL THEN NULL ELSE claimer.place END
    FROM candidates, claimer WHERE s.number = candidates.number
    RETURNING s.number, s.id, s.epoch, s.owner, s.place IS DISTINCT FROM candidates.place AS moved
  ), followed AS (
    UPDATE conversations c SET owner = claimed.owner, epoch = claimed.epoch,
      unclean_ends = c.unclean_ends + CASE WHEN ${isUnclean} THEN 1 ELSE 0 END
    FROM claimed WHERE c.sandbox_id = claimed.id
  ), started AS (
    UPDATE start_tasks t SET owner = claimed.owner
    FROM claimed WHERE t.sandbox_id = claimed.id AND t.status NOT IN ('READY', 'ERROR')
  )
  SELECT id, epoch, moved AS "isMoved" FROM claimed ORDER BY number`;

const claimStatements = {
  active: claimStatement("active"),
  resting: claimStatement("resting"),
  named: claimStatement("named"),
};

/**
 * One statement claims conversations that run in a deleted sandbox, so that their runs end. When
 * two nodes claim at once, the second one waits for the first and finds nothing.
 */
const claimOrphans = `WITH claimer AS (
    SELECT n.incarnation FROM nodes n WHERE n.incarnation = $1 AND ${isLive} AND NOT n.draining
  ), ended AS (SELECT n.incarnation FROM nodes n WHERE NOT (${isLive})
  ), candidates AS (
    SELECT DISTINCT c.sandbox_id FROM conversations c
    WHERE (c.execution_status = 'running' OR c.goal_status = 'running') AND NOT c.external
      AND (c.owner IS NULL OR c.owner IN (SELECT incarnation FROM ended))
      AND NOT EXISTS (SELECT 1 FROM sandboxes s WHERE s.id = c.sandbox_id)
      AND NOT EXISTS (SELECT 1 FROM start_tasks t
        WHERE t.sandbox_id = c.sandbox_id AND t.status NOT IN ('READY', 'ERROR'))
    LIMIT $2
  ), claimed AS (
    UPDATE conversations c SET owner = claimer.incarnation, epoch = c.epoch + 1
    FROM candidates, claimer WHERE c.sandbox_id = candidates.sandbox_id
      AND (c.owner IS NULL OR c.owner IN (SELECT incarnation FROM ended))
    RETURNING c.sandbox_id, c.epoch
  )
  SELECT sandbox_id AS id, max(epoch) AS epoch, false AS "isMoved" FROM claimed GROUP BY sandbox_id`;

const loadsQuery = `SELECT incarnation, url, place, version, draining, coalesce(running, 0) AS running
  FROM nodes n LEFT JOIN (
    SELECT owner, count(*)::integer AS running FROM (
      SELECT owner FROM sandboxes WHERE status IN ('STARTING', 'RUNNING')
      UNION ALL SELECT owner FROM start_tasks t WHERE status NOT IN ('READY', 'ERROR')
        AND NOT EXISTS (SELECT FROM sandboxes s WHERE s.id = t.sandbox_id)
    ) each GROUP BY owner
  ) sums ON sums.owner = n.incarnation WHERE ${isLive} ORDER BY started_at, incarnation`;

/** Removes the rows of nodes that ended long ago; such a node owns nothing. */
const forgetStatement = `WITH gone AS (
    DELETE FROM nodes WHERE expires_at < clock_timestamp() - ${keptAfterEnd} RETURNING incarnation
  )
  , freed AS (DELETE FROM slots USING gone WHERE slots.node = gone.incarnation)
  UPDATE sandboxes s SET owner = NULL FROM gone WHERE s.owner = gone.incarnation`;

const endStatement = `UPDATE nodes SET expires_at = least(expires_at, clock_timestamp()), ended = ended OR $2
  WHERE incarnation = $1`;

const takeBackStatement = `UPDATE conversations c SET unclean_ends = unclean_ends - 1
  WHERE c.sandbox_id = ANY ($1) AND c.execution_status = 'running' AND c.unclean_ends > 0
    AND EXISTS (SELECT 1 FROM sandboxes s WHERE s.id = c.sandbox_id AND s.place IS NULL)`;

const releaseStatement = `WITH released AS (
    UPDATE sandboxes SET owner = NULL WHERE owner = $1 AND ($2::text[] IS NULL OR id = ANY ($2)) RETURNING id
  )
  UPDATE conversations c SET owner = NULL FROM released WHERE c.sandbox_id = released.id AND c.owner = $1`;

/** The nodes and the owners of sandboxes. All times come from the clock of the database. */
export class PostgresNodes implements NodeStore {
  readonly installation: string;
  readonly #database: Database;
  #self: SandboxOwnerColumns | "none" | undefined;

  constructor(database: Database, installation: string) {
    this.installation = installation;
    this.#database = database;
  }

  /**
   * This node as the owner of the sandboxes that it creates and changes; undefined in a program
   * that never joined. Throws NodeUnreachable after the lease of this node has ended.
   */
  self(): SandboxOwnerColumns | undefined {
    if (this.#self === "none") throw new PlatformError("NodeNotReady", { retryAfter: 2 });
    return this.#self;
  }

  async join({ incarnation, url, place, version, isDraining }: NodeRow, leaseMs: number): Promise<void> {
    await this.#write(forgetStatement, []);
    const sql = `INSERT INTO nodes (incarnation, url, place, version, draining, expires_at)
      VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6::double precision * interval '1 millisecond')`;
    await this.#write(sql, [incarnation, url, place, version, isDraining, leaseMs]);
    this.#self = { owner: incarnation, place };
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
    this.#self = "none";
    // From here on the database refuses appends of the node, so the release need not be in the same
    // transaction.
    await this.#write(endStatement, [incarnation, false]);
    await this.#write(releaseStatement, [incarnation, null]);
  }

  async end(incarnation: string): Promise<void> {
    await this.#write(endStatement, [incarnation, true]);
  }

  async takeBackEnds(sandboxIds: readonly string[]): Promise<void> {
    await this.#write(takeBackStatement, [[...sandboxIds]]);
  }

  async list(): Promise<NodeRow[]> {
    const sql = `SELECT incarnation, url, place, version, draining FROM nodes n WHERE ${isLive} ORDER BY started_at, incarnation`;
    return (await this.#database.read<StoredNode>(sql, [], true)).map(fromStored);
  }

  async loads(): Promise<NodeLoad[]> {
    const found = await this.#database.read<StoredNode & { running: number }>(loadsQuery, [], true);
    return found.map((row) => ({ ...fromStored(row), running: row.running }));
  }

  async claim(request: ClaimRequest): Promise<ClaimedSandbox[]> {
    const { incarnation, which, limit, lostAfterMs, known } = request;
    const statement = claimStatements[typeof which === "string" ? which : "named"];
    const values: PostgresValue[] = [incarnation, limit, lostAfterMs, known ? [...known] : null];
    if (typeof which !== "string") values.push([...which]);
    return this.#claim(statement, values);
  }

  async claimOrphans(incarnation: string, limit: number): Promise<ClaimedSandbox[]> {
    return this.#claim(claimOrphans, [incarnation, limit]);
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

  async #claim(statement: string, values: readonly PostgresValue[]): Promise<ClaimedSandbox[]> {
    return this.#database.use(
      async (connection) => (await connection.query<ClaimedSandbox>(toQuery(statement, values, true))).rows,
    );
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
