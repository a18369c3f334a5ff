import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Gate, openGate } from "@sandpiper/core/test/support/gate";
import { stub } from "@sandpiper/core/test/support/stub";
import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { startMcpServer } from "../../support/mcp-server.ts";
import { caller, removeSandboxes } from "../../support/platform.ts";
import { startServerProcess } from "../../support/server-process.ts";
import { waitUntilConsistent } from "../consistency.ts";
import { diskFull, readLogs } from "../every-append/judge.ts";
import { scriptModel as modelFor } from "../every-append/task.ts";
import { listFaults, pickRandom } from "./faults.ts";
import { runLane } from "./lane.ts";
import { prepareWorker } from "./prepare.ts";
import { randomFrom } from "./random.ts";
import { type ChaosState, callAs, queryStored, type Worker, workers } from "./state.ts";

export interface Options {
  seed: number;
  kills: number;
  /** Other things fail as well, after the kills. */
  faults: boolean;
  log: (text: string) => void;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Runs twenty conversations under random kills and then other faults; returns the problems. */
export async function runAllFaults({ seed, kills, faults: withFaults, log }: Options): Promise<string[]> {
  const random = randomFrom(seed);
  const between = (least: number, most: number) => pause(least + random() * (most - least));
  /** Waits for a random number of new records, and a moment longer. */
  const progress = async (least: number, most: number) => {
    const records = () =>
      Number(queryStored(dataDir, "SELECT coalesce(sum(last_seq), 0) AS sum FROM conversations")[0]?.sum);
    const [wanted, end] = [records() + least + random() * (most - least), Date.now() + 60_000];
    while (records() < wanted && Date.now() < end) await pause(100);
    await between(0, 500);
  };
  const began = Date.now();
  const at = () => `${((Date.now() - began) / 1000).toFixed(0)} s`;
  const failed = new Set<string>();
  const users = workers();
  const models = await startModelServer((request) => {
    // Thousands of prompts are not to be kept.
    models.requests[request.index] = stub({ index: request.index });
    const { task } = users.find(({ key }) => request.apiKey === `sk-${key}`)!;
    return modelFor_(task)(request);
  });
  const modelOf = new Map(
    users.map(({ task }) => [task, modelFor(task, (what) => void failed.add(what.slice(0, 300)))]),
  );
  const modelFor_ = (task: Worker["task"]) => modelOf.get(task)!;
  const mcp = await startMcpServer("mcp-key-of-the-test");
  const gates = { models: await openGate(models.url), mcp: await openGate(mcp.url) };
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-chaos-"));
  const store = join(dataDir, "store");
  await mkdir(store);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=256m,mode=700", "sandpiper-test", store]);
  const env = {
    SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8",
    SANDPIPER_MAX_REQUESTS: "100000",
    SANDPIPER_LOG_LEVEL: "warn",
  };
  let logs = "";
  const state: ChaosState = {
    ...{ dataDir, active: new Set(), closing: false, problems: [], finished: 0 },
    server: await startServerProcess(dataDir, env),
  };
  const kill = async () => {
    await state.server.end("SIGKILL");
    logs += state.server.output();
    for (const { id, deaths } of state.active) deaths.push(readLogs(dataDir, id));
    state.server = await startServerProcess(dataDir, env);
  };
  try {
    const call = (user: Worker) => callAs(state, user);
    await Promise.all(
      users.map((worker) => prepareWorker(worker, { env: { SANDPIPER_DATA: dataDir }, call, gates })),
    );
    const working = users.flatMap((user) =>
      Array.from({ length: user.lanes }, (_, index) => runLane(state, user, index)),
    );
    const all = Promise.all(working);
    // Failures are reported at the end.
    all.catch(() => {});
    for (let round = 1; round <= kills; round++) {
      await progress(20, 400);
      const running = [...state.active].length;
      const before = Date.now();
      await kill();
      log(
        `${at()}: kill ${round} of ${kills}, ${running} conversations, up again after ${Date.now() - before} ms; ${state.finished} have ended, ${state.problems.length} wrong`,
      );
      if (state.problems.length > 0) break;
    }
    const list = withFaults ? listFaults(state, store, gates.models, gates.mcp, random) : [];
    for (const fault of pickRandom([...list, ...list], 2 * list.length, random)) {
      if (state.problems.length > 0) break;
      await progress(50, 250);
      for (const one of state.active) one.faults = true;
      const end = await fault.begin();
      log(`${at()}: ${fault.name}; ${state.finished} have ended`);
      await between(1_000, 4_000);
      if (fault.killable && random() < 0.5) await kill();
      await between(0, 2_000);
      // Conversations that started during the fault count too.
      for (const one of state.active) one.faults = true;
      await end();
    }
    state.closing = true;
    await all;
    log(
      `${at()}: all ${state.finished} conversations have ended, ${state.problems.length} wrong; ${failed.size} calls failed and were made again`,
    );
    for (const what of [...failed].slice(0, 40)) log(`  ${what.replaceAll("\n", " ")}`);
    const before = await readConversations(state, users);
    if (state.problems.length === 0)
      state.problems.push(...(await waitUntilConsistent(dataDir, { archived: true })));
    await kill();
    const after = await readConversations(state, users);
    for (const [id, text] of before)
      if (after.get(id) !== text) state.problems.push(`${id} is shown otherwise after a restart`);
  } finally {
    state.closing = true;
    for (const { key } of users) await removeSandboxes(caller(state.server.url, key)).catch(() => {});
    await state.server.end("SIGTERM");
    logs += state.server.output();
    state.problems.push(
      ...logs
        .split("\n")
        .filter((line) => /"level":[56]0/.test(line) && !diskFull.test(line))
        .slice(0, 20),
    );
    await stop(gates, models);
    mcp.close();
    execFileSync("umount", ["--lazy", store]);
    await rm(dataDir, { recursive: true, force: true });
  }
  return state.problems;
}

async function stop(gates: Record<string, Gate>, models: ModelServer): Promise<void> {
  for (const gate of Object.values(gates)) await gate.close();
  await models.close();
}

/** The users' view of their conversations. */
async function readConversations(state: ChaosState, users: readonly Worker[]): Promise<Map<string, string>> {
  const all = new Map<string, string>();
  for (const user of users) {
    const { body } = await callAs(state, user)("GET", "/api/v1/app-conversations/search?limit=100");
    for (const { id, execution_status, updated_at, title, metrics } of body.items)
      all.set(id, JSON.stringify({ execution_status, updated_at, title, metrics }));
  }
  return all;
}
