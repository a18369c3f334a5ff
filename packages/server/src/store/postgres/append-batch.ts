import type { StorageQuotas } from "../../config/storage-quotas.ts";
import type { AppendDraft } from "../sql/append-draft.ts";
import { type Connection, toQuery } from "./database.ts";
import type { PostgresValue } from "./parameters.ts";

/** An append that waits for the database. */
export interface AppendJob extends AppendDraft {
  /** Digests of the tools of `calls`. */
  callTools: (string | null)[];
  /**
   * Parent of the events with its listed index; null: the events have no parent. The append fails
   * while the conversation runs.
   */
  navigate?: { eventId: string; index: number } | null | undefined;
  /** The node that appends and the epoch of its ownership; undefined: anybody may append. */
  owner?: { node: string; epoch: number } | undefined;
}

/** The answer of the database to one job of a batch. */
export interface AppendAnswer {
  /** `stored` means that an earlier attempt has stored the job, from `seq` on. */
  failure: string | null;
  seq: number;
  micros: number;
  head: string | null;
}

const parameterCount = 27;
/** Size of an event or a call without its text, index entries included, bytes. */
const rowBytes = 128;
const statement = `SELECT * FROM append_records_1(${Array.from({ length: parameterCount }, (_, index) => `$${index + 1}`)})`;

function countBytes({ events, calls }: AppendJob): number {
  const texts = [...calls, ...events.map(({ body }) => body)];
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text) + rowBytes, 0);
}

/** For each job, the number of events of the jobs before it. */
function countBefore(jobs: readonly AppendJob[]): number[] {
  let count = 0;
  return jobs.map(({ events }) => {
    count += events.length;
    return count - events.length;
  });
}

/**
 * Appends to different conversations in one statement, which is one transaction. The answers are in
 * the order of the jobs. With `again` the database recognizes jobs that an earlier attempt has
 * stored.
 */
export async function appendBatch(
  connection: Connection,
  jobs: readonly AppendJob[],
  { conversationBytes, userBytes }: StorageQuotas,
  again: boolean,
): Promise<AppendAnswer[]> {
  const events = jobs.flatMap((job) => job.events);
  const values: PostgresValue[] = [
    jobs.map((job) => job.conversationId),
    jobs.map((job) => job.nowMicros),
    jobs.map((job) => job.events.length),
    countBefore(jobs),
    jobs.map(countBytes),
    jobs.map((job) => job.executionStatus),
    jobs.map((job) => job.resetsUncleanEnds),
    jobs.map((job) => job.metrics),
    jobs.map((job) => job.stats),
    jobs.map((job) => job.cost),
    jobs.map((job) => job.delivers),
    jobs.map((job) => job.isEnding),
    jobs.map((job) => job.navigate !== undefined),
    jobs.map((job) => job.navigate?.eventId ?? ""),
    jobs.map((job) => job.navigate?.index ?? 0),
    jobs.map((job) => job.owner?.node ?? null),
    jobs.map((job) => job.owner?.epoch ?? null),
    events.map(({ id }) => id),
    events.map(({ kind }) => kind),
    events.map(({ listed }) => listed),
    events.map(({ body }) => body),
    jobs.flatMap((job, index) => Array<number>(job.calls.length).fill(index + 1)),
    jobs.flatMap((job) => job.calls),
    jobs.flatMap((job) => job.callTools),
    again,
    conversationBytes,
    userBytes,
  ];
  const { rows } = await connection.query<AppendAnswer & { job: number }>(toQuery(statement, values, true));
  const missing: AppendAnswer = { failure: "conversation-not-found", seq: 0, micros: 0, head: null };
  const answers = jobs.map(() => missing);
  for (const row of rows) answers[row.job - 1] = row;
  return answers;
}
