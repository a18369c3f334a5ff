import type { Sandboxes } from "@sandpiper/sandbox/api";
import { type StagedFolder, stageFolder } from "@sandpiper/sandbox/files/replace-folder";
import type { SnapshotRow } from "@sandpiper/sandbox/sandbox-store";
import type { Event } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { EventLog } from "../../store/event-log.ts";

/** Time limit for copying the files of a snapshot, ms. */
const copyTimeoutMs = 600_000;

/** A position in a log: the index of a listed event, or 0 for the beginning. */
export interface LogPosition {
  index: number;
  /** Time at which HEAD first moved away from it, microseconds since the epoch. */
  leftAt: number | undefined;
}

/**
 * The snapshot of the conversation's sandbox with the files as they were at a position: taken after
 * the last tool call before it and before the next one after it. Undefined when there is none, and
 * when no tool was called since, because the files are unchanged then.
 */
export async function findSnapshot(
  { events, sandboxes }: { events: EventLog; sandboxes: Pick<Sandboxes, "snapshots"> },
  row: Pick<ConversationRow, "id" | "userId" | "sandboxId" | "createdAt">,
  { index, leftAt }: LogPosition,
): Promise<SnapshotRow | undefined> {
  const next = await toolTime(events, row.id, { first: index + 1, last: Number.MAX_SAFE_INTEGER }, false);
  const until = Math.min(
    next ?? Number.POSITIVE_INFINITY,
    leftAt === undefined ? Number.POSITIVE_INFINITY : leftAt / 1000,
  );
  if (until === Number.POSITIVE_INFINITY) return undefined;
  const last =
    (await toolTime(events, row.id, { first: 1, last: index }, true)) ?? (await firstEventTime(events, row));
  // After the copied events of a fork, its source may have worked on until the fork was created.
  const since = until > row.createdAt ? Math.max(last, row.createdAt) : last;
  for (let pageId: string | undefined; ; ) {
    const page = await sandboxes.snapshots.search(row.userId, {
      limit: 100,
      ...(pageId !== undefined && { pageId }),
    });
    for (const snapshot of page.items) {
      if (snapshot.createdAt < since) return undefined;
      if (snapshot.sandboxId === row.sandboxId && snapshot.createdAt <= until) return snapshot;
    }
    if (page.nextPageId === null) return undefined;
    pageId = page.nextPageId;
  }
}

/** Time of the first or last tool event in a span, ms since the epoch. */
async function toolTime(
  events: EventLog,
  id: string,
  span: { first: number; last: number },
  descending: boolean,
): Promise<number | undefined> {
  if (span.last < span.first) return undefined;
  const pages = await Promise.all(
    ["ActionEvent", "ObservationEvent"].map((kind) =>
      events.search(id, { kind, span, descending, limit: 1 }),
    ),
  );
  const times = pages.flatMap(({ items }) => items.map(parseTimestamp));
  return times.length === 0 ? undefined : descending ? Math.max(...times) : Math.min(...times);
}

/** Ms since the epoch; the events of a fork are older than the fork. */
async function firstEventTime(
  events: EventLog,
  { id, createdAt }: Pick<ConversationRow, "id" | "createdAt">,
): Promise<number> {
  const [first] = (await events.search(id, { limit: 1 })).items;
  return first === undefined ? createdAt : Math.min(createdAt, parseTimestamp(first));
}

function parseTimestamp(json: string): number {
  return Date.parse(`${(JSON.parse(json) as Event).timestamp}Z`);
}

/**
 * Stages a folder of a snapshot next to a folder of the conversation's sandbox; undefined when the
 * snapshot has no such folder. Throws SandboxFailed, SandboxNotFound, InvalidParameter, and changes
 * nothing then.
 */
export async function stageFiles(
  sandboxes: Pick<Sandboxes, "running" | "snapshots">,
  snapshot: SnapshotRow,
  { sandboxId }: Pick<ConversationRow, "sandboxId">,
  { from, to }: { from: string; to: string },
): Promise<StagedFolder | undefined> {
  const target = await sandboxes.running(sandboxId);
  const opened = await sandboxes.snapshots.open(snapshot.userId, snapshot.id);
  try {
    return await stageFolder(opened.files, from, target, to, AbortSignal.timeout(copyTimeoutMs));
  } finally {
    await opened.close();
  }
}
