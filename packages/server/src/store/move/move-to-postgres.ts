import { PlatformError } from "@sandpiper/core/errors";
import { describeAddress } from "../postgres/address.ts";
import { connectFirst } from "../postgres/connect.ts";
import { type DatabaseError, isAway, toStoreError } from "../postgres/errors.ts";
import type { Vault } from "../vault.ts";
import { DigestSum, differingGroups, type TableDigest } from "./digest.ts";
import type { MoveSource } from "./move-source.ts";
import { MoveTarget } from "./move-target.ts";
import { type MovedTable, movedTables } from "./moved-tables.ts";

/** Size of a chunk of rows that the copy sends, bytes. */
const chunkBytes = 64 * 1024;

/** Most names of differing logs that a message shows. */
const maxShown = 3;

/** Progress of a move: the step, the table, and how many of the table's rows are done. */
export interface MoveProgress {
  step: "copy" | "compare";
  table: string;
  done: number;
  total: number;
}

export interface MoveParts {
  /** `postgres://user:password@host/database`. */
  url: string;
  source: MoveSource;
  /** The vault must have the key that encrypted the data. */
  vault: Vault;
  onProgress(progress: MoveProgress): void;
}

export interface MoveResult {
  /** True when the database had the same data before the move. */
  wasThere: boolean;
  /** Number of rows by table. */
  rows: ReadonlyMap<string, number>;
  /** Number of conversation logs that the move compared one by one. */
  logs: number;
}

/**
 * Copies the store of a data folder to an empty database, in one transaction that is only committed
 * when each digest agrees: whatever ends this process, the database has everything or nothing. A
 * database that has data is only compared. Throws ConfigInvalid when the database cannot be used or
 * holds other data, and DatabaseUnavailable when the connection breaks.
 */
export async function moveToPostgres(parts: MoveParts): Promise<MoveResult> {
  return withTarget(parts.url, async (target, address) => {
    await target.look();
    if ((await target.begin(parts.vault)) === "used") {
      await compareTables(target, address, parts);
      return { wasThere: true, ...(await digestTables(target, parts, "MoveTargetUsed", address)) };
    }
    const copied = new Map<string, TableDigest>();
    for (const table of movedTables) copied.set(table.name, await copyTable(target, table, parts));
    const result = await digestTables(target, parts, "MoveDiffers", address, copied);
    await target.commit();
    return { wasThere: false, ...result };
  });
}

/** Says what a move would find, and changes nothing. Throws as `moveToPostgres` does. */
export async function previewMove(
  url: string,
): Promise<{ address: string; state: "new" | "empty" | "used" }> {
  return withTarget(url, async (target, address) => ({ address, state: await target.look() }));
}

async function withTarget<T>(
  url: string,
  work: (target: MoveTarget, address: string) => Promise<T>,
): Promise<T> {
  const address = describeAddress(url);
  const { client } = await connectFirst(url);
  try {
    return await work(new MoveTarget(client, address), address);
  } catch (error) {
    if (error instanceof PlatformError) throw error;
    if (isAway(error)) {
      const reason = (error as DatabaseError).message;
      throw new PlatformError("MoveInterrupted", { address, reason }, { cause: error });
    }
    throw toStoreError(error);
  } finally {
    // The end of the connection takes an uncommitted copy back.
    await client.end().catch(() => {});
  }
}

async function copyTable(
  target: MoveTarget,
  table: MovedTable,
  { source, onProgress }: MoveParts,
): Promise<TableDigest> {
  const sum = newSum(table);
  const total = source.count(table);
  const { name } = table;
  function* chunks(): Generator<Buffer> {
    let gathered: Buffer[] = [];
    let bytes = 0;
    let done = 0;
    for (const { text, compared } of source.rows(table)) {
      sum.add(compared);
      gathered.push(text);
      bytes += text.length;
      onProgress({ step: "copy", table: name, done: ++done, total });
      if (bytes < chunkBytes) continue;
      yield Buffer.concat(gathered);
      gathered = [];
      bytes = 0;
    }
    if (bytes > 0) yield Buffer.concat(gathered);
  }
  await target.fill(table, chunks());
  return sum.end();
}

/** Refuses a database that has another number of rows, before anything is read. */
async function compareTables(target: MoveTarget, address: string, { source }: MoveParts): Promise<void> {
  for (const table of movedTables) {
    const [here, there] = [source.count(table), await target.count(table)];
    if (here === there) continue;
    const detail = `${table.name}: ${there} rows there, ${here} in the data folder`;
    throw new PlatformError("MoveTargetUsed", { address, detail });
  }
}

/** Compares all tables. `copied` contains the digests that the copy has computed already. */
async function digestTables(
  target: MoveTarget,
  { source, onProgress }: MoveParts,
  refusal: "MoveTargetUsed" | "MoveDiffers",
  address: string,
  copied: ReadonlyMap<string, TableDigest> = new Map(),
): Promise<Omit<MoveResult, "wasThere">> {
  const rows = new Map<string, number>();
  let logs = 0;
  for (const table of movedTables) {
    const { name } = table;
    const here = copied.get(name) ?? digestSource(source, table);
    let done = 0;
    const there = await target.digest(table, () =>
      onProgress({ step: "compare", table: name, done: ++done, total: here.rows }),
    );
    const differing = differingGroups(here, there);
    if (here.rows !== there.rows || differing.length > 0)
      throw new PlatformError(refusal, { address, detail: describeDifference(name, source, differing) });
    rows.set(name, here.rows);
    if (name === "events") logs = here.groups.size;
  }
  return { rows, logs };
}

function digestSource(source: MoveSource, table: MovedTable): TableDigest {
  const sum = newSum(table);
  for (const { compared } of source.rows(table)) sum.add(compared);
  return sum.end();
}

function newSum({ name }: MovedTable): DigestSum {
  return new DigestSum(name === "events");
}

function describeDifference(table: string, source: MoveSource, groups: readonly string[]): string {
  const logs = groups.filter((group) => group !== "");
  if (logs.length === 0) return `${table}: the digests differ`;
  const ids = logs.slice(0, maxShown).map((number) => source.conversationId(number) ?? `number ${number}`);
  const more = logs.length > maxShown ? ` and ${logs.length - maxShown} more` : "";
  return `the log of conversation ${ids.join(", ")}${more}: the digests differ`;
}
