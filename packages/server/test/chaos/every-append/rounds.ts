import { startModelServer } from "@sandpiper/models/test/support/model-server";
import { newId } from "@sandpiper/wire";
import { startMcpServer } from "../../support/mcp-server.ts";
import { type Json, SocketClient, until } from "../../support/platform.ts";
import type { ServerProcess } from "../../support/server-process.ts";
import { waitUntilConsistent } from "../consistency.ts";
import { checkAll, getStatus, readLog, readLogs } from "./judge.ts";
import type { StoredRecord } from "./log.ts";
import { createRequest } from "./request.ts";
import { scriptModel, type Task } from "./task.ts";
import { type KillPoint, openTaskServer, type TaskServer } from "./task-server.ts";

const mcpKey = "mcp-key-of-the-test";

/** How long a conversation may take to its end, ms. */
const endMs = 120_000;

/** After that many positions with something wrong the others are not tried. */
const maxFailed = 5;

interface Options {
  /** Takes the number of commits and returns the kill points to try. */
  choose(commits: number): KillPoint[];
  log(text: string): void;
  /** Servers that are killed concurrently. */
  sites: number;
}

/**
 * Runs a conversation in a server that is killed at one commit, restarts the server, and checks
 * that the conversation ends as if nothing had happened. The first round has no kill. Returns the
 * problems.
 */
export async function killAtCommits(task: Task, { choose, log, sites: count }: Options): Promise<string[]> {
  const models = await startModelServer(scriptModel(task));
  const mcp = await startMcpServer(mcpKey);
  const wrong: string[] = [];
  const sites: TaskServer[] = [];
  const open = async () => {
    const site = await openTaskServer(task, { mcpUrl: mcp.url, modelUrl: models.url });
    sites.push(site);
    return site;
  };
  try {
    const first = await open();
    const began = Date.now();
    const commits = await countCommits(first, task, wrong);
    const deaths = choose(commits);
    log(`the work takes ${commits} commits: ${deaths.length} deaths`);
    let [taken, died, failed] = [0, 0, wrong.length > 0 ? maxFailed : 0];
    const next = () => (failed < maxFailed ? deaths[taken++] : undefined);
    const tryDeaths = async (site: TaskServer) => {
      let death = next();
      await site.restart(death);
      while (death) {
        const [round, one, since] = [taken, death, Date.now()];
        const name = `${one.when} commit ${one.at}`;
        const { outcome, found, records, output } = await killOnce(site, task, () => {
          death = next();
          return death;
        });
        if (outcome === "died") died += 1;
        if (found.length > 0) failed += 1;
        const seconds = ((Date.now() - since) / 1000).toFixed(1);
        log(
          `${round} of ${deaths.length}: ${name}: ${outcome}, ${records} records, ${found.length} wrong, ${seconds} s`,
        );
        if (found.length > 0) log([...found, output].join("\n"));
        wrong.push(...found.map((text) => `${name}: ${text}`));
      }
    };
    while (sites.length < Math.min(count, deaths.length)) await open();
    await Promise.all(sites.map(tryDeaths));
    log(
      `${died} of ${deaths.length} deaths came, ${failed} positions wrong, ${((Date.now() - began) / 1000).toFixed(0)} s`,
    );
    for (const { dataDir } of wrong.length > 0 ? [] : sites)
      wrong.push(...(await waitUntilConsistent(dataDir, { archived: true })));
  } finally {
    for (const site of sites) await site.close();
    await models.close();
    mcp.close();
  }
  return wrong;
}

/** Lets the work be done once without a death. */
async function countCommits({ server, dataDir }: TaskServer, task: Task, wrong: string[]): Promise<number> {
  const whole = await startConversation(server, task);
  wrong.push(...(await finishRound(server, dataDir, task, whole, [])));
  const summaries = readLog(dataDir, whole.id).filter(({ event }) => event.kind === "Condensation").length;
  const summarises = "condenser" in task.settings({ mcpUrl: "", modelUrl: "" });
  if (summarises && summaries === 0) wrong.push("nothing was summarised");
  return Number([...server.output().matchAll(/^commit (\d+)$/gm)].at(-1)?.[1]);
}

/** Runs the task with one kill; `next` returns the kill point of the following server. */
async function killOnce(site: TaskServer, task: Task, next: () => KillPoint | undefined) {
  const begun = await startConversation(site.server, task);
  const died = await waitForKill(site.server, site.dataDir, task, begun);
  if (!died) await site.server.end("SIGKILL");
  const before = readLogs(site.dataDir, begun.id);
  const output = site.server.output();
  await site.restart(next());
  const found = await finishRound(site.server, site.dataDir, task, begun, [before]);
  // Where calls run side by side, some commits hold the results of several.
  const mayLive = Object.keys(task.parts).length > 0 || task.userActions !== undefined;
  if (!died && !mayLive) found.push("the server lives on");
  return {
    outcome: died ? "died" : "not reached",
    records: before.get(begun.id)!.length,
    found,
    output: `${output}\n${site.server.output()}`,
  };
}

interface StartedConversation {
  id: string;
  /** Ids of the listed events that a follower received. */
  announced: string[];
}

/** A client asks for the work and follows it; the server may die while it does. */
async function startConversation(server: ServerProcess, task: Task): Promise<StartedConversation> {
  const id = newId();
  const announced: string[] = [];
  const request = await createRequest(server, id, task);
  const answer = await server.call("POST", "/api/v1/app-conversations", request).catch(() => undefined);
  if (answer && answer.status !== 200) throw new Error(JSON.stringify(answer));
  const { socket } = SocketClient.forConversation(server, id, "&resend_mode=all");
  socket.on("message", (data) => {
    const frame = JSON.parse(String(data)) as Json;
    if (!["ConversationStateUpdateEvent", "StreamingDeltaEvent"].includes(frame.kind))
      announced.push(frame.id);
  });
  return { id, announced };
}

/** Waits until a process is killed, or its conversation has come to an end. */
async function waitForKill(
  { child, call }: ServerProcess,
  dataDir: string,
  { userActions }: Task,
  { id }: StartedConversation,
): Promise<boolean> {
  const end = Date.now() + endMs;
  await until(async () => {
    if (child.signalCode !== null || Date.now() > end) return true;
    const log = readLog(dataDir, id);
    if (["error", "stuck"].includes(getStatus(log) ?? "")) return true;
    const isDone = (await userActions?.(call, id, log).catch(() => false)) ?? true;
    return (isDone && log.at(-1)?.event.value === "finished") || undefined;
  }, 50);
  // The last commit of all may be the one.
  const last = Math.min(end, Date.now() + 3_000);
  await until(() => child.signalCode !== null || Date.now() > last || undefined);
  return child.signalCode === "SIGKILL";
}

/** Waits for a conversation's end and removes its sandbox; returns the problems. */
async function finishRound(
  { call }: ServerProcess,
  dataDir: string,
  task: Task,
  { id, announced }: StartedConversation,
  deaths: readonly ReadonlyMap<string, readonly StoredRecord[]>[],
): Promise<string[]> {
  const end = Date.now() + endMs;
  const shown = async () => (await call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0];
  await until(async () => {
    const log = readLog(dataDir, id);
    const isDone = (await task.userActions?.(call, id, log)) ?? true;
    const status = getStatus(log)!;
    return (
      (isDone && status === "finished") ||
      ["error", "stuck"].includes(status) ||
      Date.now() > end ||
      undefined
    );
  }, 50);
  const after = readLogs(dataDir, id);
  const { sandbox_id: box } = await shown();
  await call("DELETE", `/api/v1/sandboxes/${box}?sandbox_id=${box}`);
  return checkAll({ id, task, after, deaths, announced });
}
