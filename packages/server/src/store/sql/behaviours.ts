import { PlatformError } from "@sandpiper/core/errors";
import type { AcceptanceRow, BehaviourRow, BehaviourStore } from "../behaviour-store.ts";
import type { SqlContext } from "./context.ts";
import type { WriteLimit } from "./engine.ts";
import { compile, type Tables } from "./tables.ts";

type Stored = Tables["behaviours"];
type StoredAcceptance = Tables["accepted_behaviours"];

export const behaviourQueries = {
  list: "SELECT * FROM behaviours WHERE user_id = ? ORDER BY number DESC",
  ofHolder: "SELECT * FROM behaviours WHERE holder = ? ORDER BY number DESC",
  unaccepted: `SELECT * FROM behaviours b WHERE holder = ? AND NOT EXISTS
    (SELECT 1 FROM accepted_behaviours a WHERE a.user_id = ? AND a.digest = b.digest) ORDER BY number DESC LIMIT 1`,
  accepted: "SELECT * FROM accepted_behaviours WHERE user_id = ? ORDER BY number DESC",
};

/** The parts of a row that were forgotten. */
const noParts = "[]";

/** Behaviours of projects, and what users have accepted of them. */
export class SqlBehaviours implements BehaviourStore {
  readonly #context: SqlContext;

  constructor(context: SqlContext) {
    this.#context = context;
  }

  async add(
    { holder, userId, workingDir, digest, origin, parts }: BehaviourRow,
    keep: number,
  ): Promise<void> {
    const { build, writer } = this.#context;
    const forgotten = build
      .deleteFrom("behaviours")
      .where("holder", "=", holder)
      .where("digest", "=", digest)
      .where("parts", "=", noParts);
    const insert = build
      .insertInto("behaviours")
      .values({
        holder,
        user_id: userId,
        working_dir: workingDir,
        digest,
        origin,
        parts: JSON.stringify(parts),
      })
      .onConflict((conflict) => conflict.columns(["holder", "digest"]).doNothing());
    const newest = build
      .selectFrom("behaviours")
      .select("number")
      .where("holder", "=", holder)
      .orderBy("number", "desc")
      .limit(keep);
    const accepted = build.selectFrom("accepted_behaviours").select("digest").where("user_id", "=", userId);
    const trim = build
      .deleteFrom("behaviours")
      .where("holder", "=", holder)
      .where("number", "not in", newest)
      .where("digest", "in", accepted);
    const forget = build
      .updateTable("behaviours")
      .set({ parts: noParts })
      .where("holder", "=", holder)
      .where("number", "not in", newest);
    await writer.run(compile(forgotten), compile(insert), compile(trim), compile(forget));
  }

  async list(userId: string, holder?: string): Promise<BehaviourRow[]> {
    const { reader } = this.#context;
    const rows =
      holder === undefined
        ? await reader.all<Stored>(behaviourQueries.list, userId)
        : await reader.all<Stored>(behaviourQueries.ofHolder, holder);
    return rows.filter((row) => row.user_id === userId).map(toRow);
  }

  async findUnaccepted(userId: string, holder: string): Promise<BehaviourRow | undefined> {
    const stored = await this.#context.reader.get<Stored>(behaviourQueries.unaccepted, holder, userId);
    return stored && toRow(stored);
  }

  async findOrigin(holder: string, workingDir: string): Promise<string | undefined> {
    const rows = await this.#context.reader.all<Stored>(behaviourQueries.ofHolder, holder);
    return rows.find((row) => row.working_dir === workingDir)?.origin;
  }

  async accept({ userId, digest, origin, parts, acceptedAt }: AcceptanceRow, max: number): Promise<void> {
    const { build, writer } = this.#context;
    const insert = build
      .insertInto("accepted_behaviours")
      .values({ user_id: userId, digest, origin, parts: JSON.stringify(parts), accepted_at: acceptedAt })
      .onConflict((conflict) => conflict.columns(["user_id", "digest"]).doNothing());
    const limit: WriteLimit = {
      userId,
      full: {
        sql: "SELECT 1 FROM (SELECT count(*) AS accepted FROM accepted_behaviours WHERE user_id = ?) counted WHERE accepted >= ?",
        parameters: [userId, max],
      },
      refuse: () => new PlatformError("TooManyAcceptancesStored", { max }),
      countsBytes: false,
    };
    await writer.addWithin(limit, compile(insert));
  }

  async revoke(userId: string, digest: string): Promise<void> {
    const { build, writer } = this.#context;
    const removal = build
      .deleteFrom("accepted_behaviours")
      .where("user_id", "=", userId)
      .where("digest", "=", digest);
    await writer.run(compile(removal));
  }

  async listAccepted(userId: string): Promise<AcceptanceRow[]> {
    return (await this.#context.reader.all<StoredAcceptance>(behaviourQueries.accepted, userId)).map(
      ({ digest, origin, parts, accepted_at }) => ({
        ...{ userId, digest, origin, acceptedAt: accepted_at },
        parts: JSON.parse(parts) as AcceptanceRow["parts"],
      }),
    );
  }
}

function toRow({
  holder,
  user_id,
  working_dir,
  digest,
  origin,
  parts,
}: Omit<Stored, "number">): BehaviourRow {
  return {
    ...{ holder, userId: user_id, workingDir: working_dir, digest, origin },
    parts: JSON.parse(parts) as BehaviourRow["parts"],
  };
}
