import { rm } from "node:fs/promises";
import { join } from "node:path";
import { getStatus } from "../every-append/judge.ts";
import { type ActiveConversation, type NodesState, pause } from "./state.ts";

/** After that many records of a conversation its sandbox rests. */
const restAfter = 12;

/** Maximum wait for the copy of a resting sandbox, after which its conversation goes on, ms. */
const copyMs = 45_000;

/**
 * Pauses the sandbox of a conversation in the middle of its work, waits until the sandbox is
 * hibernated and its files are in the shared blobs, and removes them from the machine, so that the
 * sandbox wakes as on another machine. Then the conversation goes on. This counts as a fault,
 * because the programs in the sandbox end.
 */
export async function restSandbox(
  state: NodesState,
  conversation: ActiveConversation,
  over: AbortSignal,
): Promise<void> {
  const { cluster } = state;
  const { id, worker } = conversation;
  const call = cluster.caller(worker.key);
  const isWorking = async () => {
    const log = await cluster.logs.read(id);
    return log.length >= restAfter && getStatus(log) === "running";
  };
  while (!(await isWorking())) {
    if (over.aborted) return;
    await pause(200);
  }
  const [row] = await cluster.logs.query("SELECT sandbox_id AS box FROM conversations WHERE id = $1", id);
  const box = String(row?.box);
  conversation.faults += 1;
  conversation.resting = true;
  try {
    const begun = Date.now();
    const answer = await call("POST", `/api/v1/sandboxes/${box}/pause`).catch(() => undefined);
    if (answer?.status !== 200) return;
    while (!(await isKept(state, box, begun)))
      if (over.aborted || Date.now() > begun + copyMs) return;
      else await pause(200);
    await rm(join(cluster.dataDir, "sandboxes", "sandboxes", `${box}.json`));
    state.moved += 1;
  } finally {
    conversation.resting = false;
    await resume(state, conversation, over);
  }
}

/** Whether the shared blobs have the files of a paused sandbox as they were left at that time. */
async function isKept({ cluster }: NodesState, box: string, since: number): Promise<boolean> {
  const sql = `SELECT 1 FROM blob_references r JOIN sandboxes s ON s.id = r.holder
    WHERE s.id = $1 AND s.status = 'PAUSED' AND r.kept_at >= $2`;
  return (await cluster.logs.query(sql, box, since)).length > 0;
}

/** Makes a paused conversation run again. A user who takes part in the task does so too. */
async function resume(
  { cluster }: NodesState,
  { id, worker }: ActiveConversation,
  over: AbortSignal,
): Promise<void> {
  const call = cluster.caller(worker.key);
  while (!over.aborted && getStatus(await cluster.logs.read(id)) === "paused") {
    await call("POST", `/api/conversations/${id}/run`).catch(() => {});
    await pause(300);
  }
}
