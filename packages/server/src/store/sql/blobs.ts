import type { BlobInfo, StoredBlob } from "@sandpiper/core/blobs/blob-store";
import type {
  BlobClaim,
  BlobHolder,
  BlobReferenceStore,
  KeptBlob,
} from "@sandpiper/core/blobs/reference-store";
import type { SqlContext } from "./context.ts";
import type { SqlValue, Statement } from "./statement.ts";

export const blobQueries = {
  get: 'SELECT digest, size, kept_at AS "keptAt" FROM blob_references JOIN blobs USING (digest) WHERE holder = ?',
  userBytes: `SELECT coalesce(sum(size), 0) AS bytes FROM blobs
    WHERE digest IN (SELECT digest FROM blob_references WHERE user_id = ?)`,
  unused: `SELECT digest, size FROM blobs
    WHERE unused_since < ? AND (claimed_at IS NULL OR claimed_at < ?) ORDER BY unused_since LIMIT ?`,
} as const;

const isFree = "EXISTS (SELECT 1 FROM blobs WHERE digest = ? AND claimed_at IS NULL)";
const isHeld =
  "(EXISTS (SELECT 1 FROM sandboxes WHERE id = ?) OR EXISTS (SELECT 1 FROM snapshots WHERE id = ?))";

/** References of sandboxes and snapshots to shared blobs. */
export class SqlBlobReferences implements BlobReferenceStore {
  readonly #context: SqlContext;

  constructor(context: SqlContext) {
    this.#context = context;
  }

  async keep({ id, userId }: BlobHolder, { digest, size }: BlobInfo): Promise<boolean> {
    const now = this.#context.clock();
    const changed = await this.#context.writer.run(
      statement("INSERT INTO blobs (digest, size, unused_since) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", [
        ...[digest, size, now],
      ]),
      // This statement waits for a server that is claiming the blob, so the next statement sees the
      // claim.
      statement("UPDATE blobs SET size = size WHERE digest = ?", [digest]),
      statement(
        `INSERT INTO blob_references (holder, digest, user_id, kept_at)
           SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS BIGINT) WHERE ${isFree} AND ${isHeld}
           ON CONFLICT (holder) DO UPDATE SET digest = excluded.digest, kept_at = excluded.kept_at`,
        [id, digest, userId, now, digest, id, id],
      ),
      statement(
        `UPDATE blobs SET unused_since = NULL WHERE digest = ? AND claimed_at IS NULL
           AND EXISTS (SELECT 1 FROM blob_references WHERE holder = ? AND digest = ?)`,
        [digest, id, digest],
      ),
    );
    return changed === 1;
  }

  async get(holderId: string): Promise<KeptBlob | undefined> {
    return this.#context.reader.get<KeptBlob>(blobQueries.get, holderId);
  }

  async release(holderId: string): Promise<void> {
    await this.#context.writer.release(statement("DELETE FROM blob_references WHERE holder = ?", [holderId]));
  }

  async userBytes(userId: string): Promise<number> {
    return (await this.#context.reader.get<{ bytes: number }>(blobQueries.userBytes, userId))!.bytes;
  }

  async claimUnused({ unusedBefore, claimedBefore, limit }: BlobClaim): Promise<BlobInfo[]> {
    const found = await this.#context.reader.all<BlobInfo>(
      ...[blobQueries.unused, unusedBefore, claimedBefore, limit],
    );
    const now = this.#context.clock();
    return this.#claim(found, ({ digest }) =>
      statement(
        `UPDATE blobs SET claimed_at = ? WHERE digest = ? AND unused_since < ?
           AND (claimed_at IS NULL OR claimed_at < ?)`,
        [now, digest, unusedBefore, claimedBefore],
      ),
    );
  }

  async claimUnknown(blobs: readonly StoredBlob[]): Promise<BlobInfo[]> {
    const now = this.#context.clock();
    return this.#claim(blobs, ({ digest, size }) =>
      statement(
        `INSERT INTO blobs (digest, size, unused_since, claimed_at) VALUES (?, ?, ?, ?)
           ON CONFLICT DO NOTHING`,
        [digest, size, now, now],
      ),
    );
  }

  async forget(digest: string): Promise<void> {
    const sql = "DELETE FROM blobs WHERE digest = ? AND claimed_at IS NOT NULL";
    await this.#context.writer.release(statement(sql, [digest]));
  }

  /** Returns the blobs whose statement changed a row. */
  async #claim<T extends BlobInfo>(blobs: readonly T[], make: (blob: T) => Statement): Promise<BlobInfo[]> {
    const changed = await Promise.all(blobs.map((blob) => this.#context.writer.release(make(blob))));
    return blobs.flatMap(({ digest, size }, index) => (changed[index] === 1 ? [{ digest, size }] : []));
  }
}

function statement(sql: string, parameters: SqlValue[]): Statement {
  return { sql, parameters };
}
