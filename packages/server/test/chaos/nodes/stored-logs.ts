import pg from "pg";
import type { StoredRecord } from "../every-append/log.ts";

/** Makes the database note which owner stored which record. */
const recordOwners = `
CREATE TABLE chaos_owners (conversation bigint, seq integer, owner text, epoch bigint, at timestamptz);
CREATE INDEX chaos_owners_by_record ON chaos_owners (conversation, seq);
CREATE FUNCTION chaos_note_owners() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos_owners
    SELECT e.conversation, e.seq, c.owner, c.epoch, clock_timestamp()
    FROM added e JOIN conversations c ON c.number = e.conversation;
  RETURN NULL;
END $$;
CREATE TRIGGER chaos_note_owners AFTER INSERT ON events REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION chaos_note_owners()`;

/** Reads the database of a cluster, and waits for it when it is down. */
export class StoredLogs {
  readonly #pool: pg.Pool;

  constructor(url: string) {
    this.#pool = new pg.Pool({ connectionString: url, max: 4 });
    // The next query opens another connection.
    this.#pool.on("error", () => {});
  }

  async query(sql: string, ...values: unknown[]): Promise<Record<string, any>[]> {
    for (const end = Date.now() + 60_000; ; ) {
      try {
        return (await this.#pool.query(sql, values)).rows;
      } catch (error) {
        if (Date.now() > end) throw error;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  /** Makes the database note the owner of each record. A node must have made the tables. */
  async noteOwners(): Promise<void> {
    await this.query(recordOwners);
  }

  /** The log of a conversation. */
  async read(id: string): Promise<StoredRecord[]> {
    const rows = await this.query(
      `SELECT listed_index, json FROM events
        WHERE conversation = (SELECT number FROM conversations WHERE id = $1) ORDER BY seq`,
      id,
    );
    return rows.map(({ listed_index, json }) => ({
      listed: listed_index !== null,
      json,
      event: JSON.parse(json),
    }));
  }

  /** The logs of a conversation and of its sub-agents, by id. */
  async readAll(id: string): Promise<Map<string, StoredRecord[]>> {
    const parts = await this.query("SELECT id FROM conversations WHERE parent_id = $1 ORDER BY number", id);
    const logs = new Map<string, StoredRecord[]>();
    for (const one of [id, ...parts.map((row) => String(row.id))]) logs.set(one, await this.read(one));
    return logs;
  }

  /** Ids of the answers of models that were recorded for a conversation and used. */
  async answers(id: string): Promise<string[]> {
    const rows = await this.query(
      `SELECT json::jsonb #>> '{response,id}' AS answer FROM model_calls
        WHERE conversation = (SELECT number FROM conversations WHERE id = $1)
          AND json::jsonb ->> 'usageId' IN ('agent', 'condenser') AND json::jsonb -> 'response' IS NOT NULL`,
      id,
    );
    return rows.map(({ answer }) => String(answer)).sort();
  }

  /** The owner of each record of a conversation, in the order of the records. */
  async owners(id: string): Promise<{ at: Date; owner: string | null; epoch: string }[]> {
    const rows = await this.query(
      `SELECT o.at, o.owner, o.epoch FROM events e LEFT JOIN chaos_owners o USING (conversation, seq)
        WHERE e.conversation = (SELECT number FROM conversations WHERE id = $1) ORDER BY e.seq`,
      id,
    );
    return rows as { at: Date; owner: string | null; epoch: string }[];
  }

  /** The running conversations, with their last numbers and the nodes that own them. */
  async running(): Promise<{ id: string; seq: number; node: string | null }[]> {
    const rows = await this.query(
      `SELECT c.id, c.last_seq AS seq, n.url AS node FROM conversations c
        LEFT JOIN nodes n ON n.incarnation = c.owner WHERE c.execution_status = 'running'`,
    );
    return rows as { id: string; seq: number; node: string | null }[];
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }
}
