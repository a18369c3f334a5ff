import { newId } from "@sandpiper/wire";
import { checkLog, getShownResult, getStatus } from "../every-append/judge.ts";
import { userWish } from "../every-append/task.ts";
import { type ActiveConversation, type NodesState, pause } from "./state.ts";

/** How long the work of a fork may take, with all faults, ms. */
const endMs = 200_000;

/** Forks a conversation that has ended, asks the fork for more, and returns its problems. */
export async function checkFork(state: NodesState, { id, worker }: ActiveConversation): Promise<string[]> {
  const { cluster } = state;
  const call = cluster.caller(worker.key);
  const before = await cluster.logs.read(id);
  const copy = newId();
  const done = async (path: string, body: object, isDone: () => Promise<boolean>) => {
    for (const end = Date.now() + endMs; Date.now() < end; await pause(300)) {
      const answer = await call("POST", path, body).catch(() => undefined);
      if (answer && answer.status < 300) return true;
      if (await isDone()) return true;
    }
    return false;
  };
  const exists = async () => (await cluster.logs.read(copy)).length > 0;
  const fork = { id: copy, reset_metrics: false };
  if (!(await done(`/api/conversations/${id}/fork`, fork, exists))) return ["it cannot be forked"];
  const message = { role: "user", content: [{ type: "text", text: userWish }], run: true };
  const wrote = async () => JSON.stringify(await cluster.logs.read(copy)).includes(userWish);
  if (!(await done(`/api/conversations/${copy}/events`, message, wrote)))
    return ["its fork takes no message"];
  let log = await cluster.logs.read(copy);
  for (const end = Date.now() + endMs; getStatus(log) !== "finished" && Date.now() < end; await pause(300))
    log = await cluster.logs.read(copy);
  state.finished += 1;
  const listed = before.filter((record) => record.listed);
  const copied = log.filter((record) => record.listed).slice(0, listed.length);
  const changed = listed.filter(({ json }, index) => copied[index]?.json !== json).length;
  const expected = worker.task.expected.replace("three,", "thirteen,three,");
  const shown = { is: getShownResult(log), expected };
  return [
    ...(changed > 0 ? [`a fork changed ${changed} events`] : []),
    ...checkLog({
      deaths: [],
      after: log,
      announced: [],
      shown,
      messages: 2,
      rested: true,
      faults: true,
    }).map((text) => `fork ${copy}: ${text}`),
  ];
}
