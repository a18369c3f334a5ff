import { newId } from "@sandpiper/wire";
import { Follower, type Way } from "../../sockets/follower.ts";
import { difference } from "../all-faults/lane.ts";
import type { Worker } from "../all-faults/state.ts";
import { getStatus } from "../every-append/judge.ts";
import { createRequest } from "../every-append/request.ts";
import { checkFork } from "./fork.ts";
import { findProblems, takeoverOf } from "./judge.ts";
import { writeConversation } from "./record.ts";
import { restSandbox } from "./rest.ts";
import { type ActiveConversation, type NodesState, pause } from "./state.ts";
import { typeInto } from "./typist.ts";

/** Maximum duration of a conversation, with all faults, ms. */
const endMs = 400_000;

/** Interval between checks of a conversation, ms. */
const lookMs = 500;

const ways: Way[] = ["after_seq", "after_timestamp", "Last-Event-ID"];

/** Lets one conversation after the other do its work, and checks each of them at its end. */
export async function runLane(state: NodesState, worker: Worker, number: number): Promise<void> {
  const { logs } = state.cluster;
  for (let round = 0; !state.closing; round++) {
    const going: ActiveConversation = {
      ...{ id: newId(), worker, earlier: [], begun: Date.now(), resting: false },
      faults: Date.now() < state.faultUntil ? 1 : 0,
    };
    const follower = new Follower(going.id, ways[(number + round) % ways.length]!);
    const over = new AbortController();
    state.active.add(going);
    try {
      await startConversation(state, going);
      const following = follow(state, worker, follower, over.signal);
      const typing = number % 3 === 0 ? typeInto(state, going, over.signal) : Promise.resolve([]);
      const resting =
        state.blobs && number % 3 === 1 ? restSandbox(state, going, over.signal) : Promise.resolve();
      const hasEnded = await driveToEnd(state, going);
      const after = await logs.readAll(going.id);
      const own = after.get(going.id)!;
      const listed = own.flatMap(({ listed, event }) => (listed ? [event.id as string] : []));
      // A node may be away, and then another node sends the last frames.
      for (const end = Date.now() + 60_000; follower.ids.length < listed.length && Date.now() < end; )
        await pause(50);
      over.abort();
      const found = await typing;
      await Promise.all([following, resting]);
      if (!hasEnded) {
        const [start] = await logs.query(
          "SELECT status, detail FROM start_tasks WHERE conversation_id = $1",
          going.id,
        );
        const last = own.slice(-3).map(({ json }) => json.slice(0, 300));
        found.push(`it does not end: ${JSON.stringify(start)} ${last}`);
      }
      if (JSON.stringify(follower.ids) !== JSON.stringify(listed))
        found.push(`a follower (${follower.way}) received ${difference(follower.ids, listed)}`);
      found.push(...(await findProblems(state, going, after, follower.ids)));
      for (const orphan of state.orphans)
        if (after.has(orphan.id)) {
          const waited = takeoverOf(orphan, after.get(orphan.id)!);
          if (waited !== undefined) state.takeovers.push(waited);
        }
      if (found.length === 0 && worker.name !== "talked" && number % 2 === 0)
        found.push(...(await checkFork(state, going)));
      state.problems.push(
        ...found.map((text) => `${worker.name} ${going.id}, ${going.faults} faults: ${text}`),
      );
      if (found.length === 0) await remove(state, going);
      else await writeConversation(state, going, found);
    } finally {
      over.abort();
      state.active.delete(going);
      state.finished += 1;
    }
  }
}

/** Sends the request to start until the database has its start task. */
async function startConversation(state: NodesState, { id, worker }: ActiveConversation): Promise<void> {
  const call = state.cluster.caller(worker.key);
  const isTaken = async () =>
    (await state.cluster.logs.query("SELECT 1 FROM start_tasks WHERE conversation_id = $1", id)).length > 0;
  while (!(await isTaken())) {
    try {
      const request = await createRequest({ call }, id, worker.task);
      const { status, body } = await call("POST", "/api/v1/app-conversations", request);
      // An earlier request, whose answer was lost, may have been taken meanwhile.
      if (status < 500 && status !== 200 && !(await isTaken())) throw new RangeError(JSON.stringify(body));
    } catch (error) {
      if (error instanceof RangeError) throw error;
      await pause(300);
    }
  }
}

/** Makes a client follow the conversation through any node that listens, until the signal. */
async function follow(
  { cluster }: NodesState,
  { key }: Worker,
  follower: Follower,
  over: AbortSignal,
): Promise<void> {
  over.addEventListener("abort", () => follower.end());
  while (!over.aborted) {
    await follower.follow({ url: cluster.proxy.url, key }).ended;
    await pause(200);
  }
}

/** Performs the user's steps until the conversation rests. Returns false on a time-out. */
async function driveToEnd(state: NodesState, going: ActiveConversation): Promise<boolean> {
  const { id, worker } = going;
  const { logs } = state.cluster;
  const call = state.cluster.caller(worker.key);
  for (const end = Date.now() + endMs; Date.now() < end; await pause(lookMs)) {
    const [row] = await logs.query("SELECT execution_status AS status FROM conversations WHERE id = $1", id);
    if (row?.status === "error" || row?.status === "stuck") return true;
    if (!row && (await hasFailed(state, id))) return false;
    if (!row || going.resting || (row.status !== "finished" && !worker.task.userActions)) continue;
    const log = await logs.read(id);
    const isDone = (await worker.task.userActions?.(call, id, log).catch(() => false)) ?? true;
    if (isDone && getStatus(log) === "finished") return true;
  }
  return false;
}

/** Whether a start has ended without a conversation. */
async function hasFailed({ cluster }: NodesState, id: string): Promise<boolean> {
  const sql = "SELECT 1 FROM start_tasks WHERE conversation_id = $1 AND status = 'ERROR'";
  return (await cluster.logs.query(sql, id)).length > 0;
}

async function remove({ cluster }: NodesState, { id, worker }: ActiveConversation): Promise<void> {
  const [row] = await cluster.logs.query("SELECT sandbox_id AS box FROM conversations WHERE id = $1", id);
  const call = cluster.caller(worker.key);
  // A sandbox whose removal fails stays until the end of the test removes it.
  await call("DELETE", `/api/v1/sandboxes/${row?.box}?sandbox_id=${row?.box}`).catch(() => {});
}
