import type { Sandboxes } from "@sandpiper/sandbox/api";
import { type StagedFolder, stageFolder } from "@sandpiper/sandbox/files/replace-folder";
import type { SnapshotRow } from "@sandpiper/sandbox/sandbox-store";
import type { Event } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { EventLog } from "../../store/event-log.ts";

/** Time in which the files of a snapshot have to be copied, ms. */
const copyMs = 600_000;

/** A place in a log: a listed event by its index, 0 the beginning. */
export interface LogPosition {
  index: number;
  /** When HEAD was first moved after it, microseconds since the epoch. */
  leftAt: number | undefined;
}

/**
 * The snapshot of the conversation's sandbox that has the files as they were at an event: made after the last tool call before it and before the next one
 * after it. Undefined where there is none, and where no tool was called since: the files are as they were then.
 */
export function findSnapshot(
  { events, sandboxes }: { events: EventLog; sandboxes: Pick<Sandboxes, "snapshots"> },
  row: Pick<ConversationRow, "id" | "userId" | "sandboxId" | "createdAt">,
  { index, leftAt }: LogPosition,
): SnapshotRow | undefined {
  const next = toolTime(events, row.id, { first: index + 1, last: Number.MAX_SAFE_INTEGER }, false);
  const until = Math.min(
    next ?? Number.POSITIVE_INFINITY,
    leftAt === undefined ? Number.POSITIVE_INFINITY : leftAt / 1000,
  );
  if (until === Number.POSITIVE_INFINITY) return undefined;
  const last = toolTime(events, row.id, { first: 1, last: index }, true) ?? firstEventTime(events, row);
  // The end of a fork's copied events is followed by more in the conversation that they are of.
  const since = until > row.createdAt ? Math.max(last, row.createdAt) : last;
  for (let pageId: string | undefined; ; ) {
    const page = sandboxes.snapshots.search(row.userId, {
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

/** When the first or the last tool was at work in a part of a log, ms since the epoch. */
function toolTime(
  events: EventLog,
  id: string,
  span: { first: number; last: number },
  descending: boolean,
): number | undefined {
  if (span.last < span.first) return undefined;
  const times = ["ActionEvent", "ObservationEvent"].flatMap((kind) =>
    events.search(id, { kind, span, descending, limit: 1 }).items.map(parseTimestamp),
  );
  return times.length === 0 ? undefined : descending ? Math.max(...times) : Math.min(...times);
}

/** A fork begins with events that are older than it is. */
function firstEventTime(
  events: EventLog,
  { id, createdAt }: Pick<ConversationRow, "id" | "createdAt">,
): number {
  const [first] = events.search(id, { limit: 1 }).items;
  return first === undefined ? createdAt : Math.min(createdAt, parseTimestamp(first));
}

function parseTimestamp(json: string): number {
  return Date.parse(`${(JSON.parse(json) as Event).timestamp}Z`);
}

/**
 * Lays the files of a folder in a snapshot ready beside those of a folder in the conversation's sandbox. Undefined where the snapshot has no such folder.
 * Throws SandboxFailed, SandboxNotFound, InvalidParameter; all is as before then.
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
    return await stageFolder(opened.files, from, target, to, AbortSignal.timeout(copyMs));
  } finally {
    await opened.close();
  }
}
