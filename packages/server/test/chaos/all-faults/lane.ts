import { newId } from "@sandpiper/wire";
import { Follower, type Way } from "../../sockets/follower.ts";
import { eventProblems } from "../../support/event-schema.ts";
import { checkAll, diskFull, getStatus, readLog, readLogs } from "../every-append/judge.ts";
import type { StoredRecord } from "../every-append/log.ts";
import { createRequest } from "../every-append/request.ts";
import { type ActiveConversation, type ChaosState, callAs, queryStored, type Worker } from "./state.ts";

/** Maximum duration of a conversation, including restarts of the server, ms. */
const endMs = 400_000;

/** Interval between checks of a conversation, ms. */
const lookMs = 400;

const ways: Way[] = ["after_seq", "after_timestamp", "Last-Event-ID"];
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Lets one conversation after the other do its work, and looks at what became of each. */
export async function runLane(state: ChaosState, worker: Worker, number: number): Promise<void> {
  for (let round = 0; !state.closing; round++) {
    const going: ActiveConversation = { id: newId(), worker, deaths: [], faults: false };
    const follower = new Follower(going.id, ways[(number + round) % ways.length]!);
    const isOver = Promise.withResolvers<void>();
    state.active.add(going);
    try {
      await startConversation(state, going);
      const following = follow(state, worker, follower, isOver.promise);
      const hasEnded = await driveToEnd(state, going);
      const after = readLogs(state.dataDir, going.id);
      const listed = after
        .get(going.id)!
        .flatMap(({ listed, event }) => (listed ? [event.id as string] : []));
      // The server may be away, and then the last frames come with the next one.
      for (const end = Date.now() + 60_000; follower.ids.length < listed.length && Date.now() < end; )
        await pause(50);
      isOver.resolve();
      await following;
      const found = hasEnded
        ? []
        : [
            `it does not end: ${JSON.stringify(
              after
                .get(going.id)!
                .slice(-3)
                .map(({ json }) => json.slice(0, 300)),
            )}`,
          ];
      if (JSON.stringify(follower.ids) !== JSON.stringify(listed))
        found.push(`a follower (${follower.way}) received ${difference(follower.ids, listed)}`);
      found.push(...findProblems(state, going, after, follower.ids));
      state.problems.push(
        ...found.map((text) => `${worker.name} ${going.id}, ${going.deaths.length} deaths: ${text}`),
      );
      if (found.length === 0) await remove(state, going);
    } finally {
      isOver.resolve();
      state.active.delete(going);
      state.finished += 1;
    }
  }
}

/** Asks for the work until it is certain that the server has taken the request. */
async function startConversation(state: ChaosState, { id, worker }: ActiveConversation): Promise<void> {
  const call = callAs(state, worker);
  const isTaken = () =>
    queryStored(state.dataDir, "SELECT id FROM start_tasks WHERE conversation_id = ?", id).length > 0;
  while (!isTaken()) {
    try {
      const request = await createRequest({ call }, id, worker.task);
      const { status, body } = await call("POST", "/api/v1/app-conversations", request);
      if (status < 500 && status !== 200) throw new RangeError(JSON.stringify(body));
    } catch (error) {
      if (error instanceof RangeError) throw error;
      await pause(300);
    }
  }
}

/** Has a client follow the conversation whenever there is a server, until it is over. */
async function follow(
  state: ChaosState,
  { key }: Worker,
  follower: Follower,
  isOver: Promise<void>,
): Promise<void> {
  let over = false;
  void isOver.then(() => {
    over = true;
    follower.end();
  });
  while (!over) {
    await follower.follow({ url: state.server.url, key }).ended;
    await pause(200);
  }
}

/** Performs the user's steps until the conversation rests. Returns false on a time-out. */
async function driveToEnd(state: ChaosState, { id, worker }: ActiveConversation): Promise<boolean> {
  const call = callAs(state, worker);
  for (const end = Date.now() + endMs; Date.now() < end; await pause(lookMs)) {
    const [{ status } = {}] = queryStored(
      state.dataDir,
      "SELECT execution_status AS status FROM conversations WHERE id = ?",
      id,
    );
    if (status === "error" || status === "stuck") {
      const log = readLog(state.dataDir, id);
      const last = log.findLast(({ event }) => event.kind === "ConversationErrorEvent")?.event.detail ?? "";
      if (status === "stuck" || !diskFull.test(last)) return true;
      await call("POST", `/api/conversations/${id}/run`).catch(() => {});
      continue;
    }
    if (status === undefined || (status !== "finished" && !worker.task.userActions)) continue;
    const log = readLog(state.dataDir, id);
    const isDone = (await worker.task.userActions?.(call, id, log).catch(() => false)) ?? true;
    if (isDone && getStatus(log) === "finished") return true;
  }
  return false;
}

async function remove(state: ChaosState, { id, worker }: ActiveConversation): Promise<void> {
  const [{ box } = {}] = queryStored(
    state.dataDir,
    "SELECT sandbox_id AS box FROM conversations WHERE id = ?",
    id,
  );
  // Where the server is away it stays: the end of the test removes it.
  await callAs(state, worker)("DELETE", `/api/v1/sandboxes/${box}?sandbox_id=${box}`).catch(() => {});
}

function findProblems(
  state: ChaosState,
  { id, worker, deaths, faults }: ActiveConversation,
  after: Map<string, StoredRecord[]>,
  announced: string[],
): string[] {
  const wrong = checkAll({ id, task: worker.task, deaths, after, announced, faults });
  for (const [one, log] of after) {
    wrong.push(...log.flatMap(({ event }) => eventProblems(event)).slice(0, 3));
    wrong.push(
      ...checkModelCalls(state.dataDir, one, log).map((text) => `${one === id ? "" : "sub-agent: "}${text}`),
    );
  }
  return wrong;
}

/** Each used answer of a model is recorded exactly once. */
function checkModelCalls(dataDir: string, id: string, log: readonly StoredRecord[]): string[] {
  const rows = queryStored(
    dataDir,
    `SELECT json ->> '$.response.id' AS id FROM model_calls WHERE conversation = (SELECT number FROM conversations WHERE id = ?)
     AND json ->> '$.usageId' IN ('agent', 'condenser') AND json ->> '$.response' IS NOT NULL`,
    id,
  );
  const recorded = rows.map(({ id: answer }) => String(answer)).sort();
  const answers = [...new Set(log.flatMap(({ event }) => event.llm_response_id ?? []))].sort();
  return JSON.stringify(recorded) === JSON.stringify(answers)
    ? []
    : [`recorded calls: ${difference(recorded, answers)}`];
}

/** How two lists of ids differ. */
export function difference(is: readonly string[], wanted: readonly string[]): string {
  const twice = is.filter((id, index) => is.indexOf(id) < index);
  const missing = wanted.filter((id) => !is.includes(id));
  const strange = is.filter((id) => !wanted.includes(id));
  const order = twice.length + missing.length + strange.length === 0;
  return order
    ? "all, in another order"
    : `twice ${twice}; missing ${missing}; strange ${strange}; ${wanted.length} in all`;
}
