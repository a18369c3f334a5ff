import { mkdtemp, rm, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { s3Program, startS3Server } from "@sandpiper/core/test/support/s3-server";
import { stub } from "@sandpiper/core/test/support/stub";
import { startModelServer } from "@sandpiper/models/test/support/model-server";
import { startMcpServer } from "../../support/mcp-server.ts";
import { removeSandboxes } from "../../support/platform.ts";
import { prepareWorker } from "../all-faults/prepare.ts";
import { randomFrom } from "../all-faults/random.ts";
import { type Worker, workers } from "../all-faults/state.ts";
import { mark, scriptModel, type Task, userWish } from "../every-append/task.ts";
import { Cluster } from "./cluster.ts";
import { listFaults } from "./faults.ts";
import { quantile } from "./judge.ts";
import { runLane } from "./lane.ts";
import { type NodesState, pause } from "./state.ts";

export interface Options {
  seed: number;
  nodes: number;
  /** Number of conversations that run at once. */
  conversations: number;
  /** How long faults happen, ms. */
  durationMs: number;
  /** Names of the faults that happen; default: all. */
  only?: RegExp;
  log: (text: string) => void;
}

export interface Outcome {
  problems: string[];
  /** Times from a node's death to the next event of each of its conversations, ms. */
  takeovers: number[];
  /** Folder with the logs of the conversations that are wrong. */
  folder: string;
}

/**
 * How long a fault has effects after its end, ms: a node finds out that it has lost its lease, and
 * joins again.
 */
const aftermathMs = 5_000;

/** Runs conversations on nodes that fail at random. */
export async function runNodesChaos(options: Options): Promise<Outcome> {
  const { seed, nodes, conversations, durationMs, only = /./, log } = options;
  const random = randomFrom(seed);
  const between = (least: number, most: number) => pause(least + random() * (most - least));
  const began = Date.now();
  const at = () => `${((Date.now() - began) / 1000).toFixed(0)} s`;
  const users = spread(conversations);
  const failed = new Set<string>();
  const modelOf = new Map(
    users.map(({ task }) => [task, scriptModel(task, (what) => void failed.add(what.slice(0, 300)))]),
  );
  const models = await startModelServer((request) => {
    // The test does not keep thousands of prompts in memory.
    models.requests[request.index] = stub({ index: request.index });
    const { task } = users.find(({ key }) => request.apiKey === `sk-${key}`)!;
    return modelOf.get(task)!(request);
  });
  const mcp = await startMcpServer("mcp-key-of-the-test");
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-nodes-"));
  const blobs = s3Program === undefined ? undefined : await startS3Server();
  const cluster = await Cluster.start({
    ...{ dataDir, nodes },
    env: {
      // A paused sandbox is hibernated, and its files are copied to the shared blobs.
      SANDPIPER_HIBERNATE_AFTER: "1",
      ...(blobs && {
        SANDPIPER_BLOBS: `s3://${blobs.place.bucket}/chaos`,
        SANDPIPER_BLOBS_ENDPOINT: blobs.place.endpoint!,
        SANDPIPER_BLOBS_CREDENTIALS: blobs.place.credentialsFile!,
      }),
      SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8",
      SANDPIPER_MAX_REQUESTS: "0",
      SANDPIPER_MAX_SANDBOXES: "0",
      SANDPIPER_LOG_LEVEL: "info",
    },
  });
  const state: NodesState = {
    ...{ cluster, blobs, active: new Set(), closing: false, problems: [], finished: 0 },
    ...{ orphans: [], takeovers: [], typed: 0, moved: 0, faultUntil: 0, happened: [] },
    folder: await mkdtemp(join(tmpdir(), `sandpiper-chaos-${seed}-`)),
  };
  try {
    const call = ({ key }: Worker) => cluster.caller(key);
    const gates = { models, mcp };
    for (const user of users) await prepareWorker(user, { env: cluster.env, call, gates });
    const lanes = users.flatMap((user) =>
      Array.from({ length: user.lanes }, (_, index) => ({ user, index })),
    );
    const all = Promise.all(lanes.map(({ user, index }) => runLane(state, user, index)));
    // The await below reports failures.
    all.catch(() => {});
    for (let round = 1; Date.now() - began < durationMs; round++) {
      await between(1_000, 6_000);
      const possible = listFaults(state, Math.floor(random() * nodes));
      const faults = possible.filter(({ name }) => only.test(name));
      const fault = faults[Math.floor(random() * faults.length)]!;
      log(
        `${at()}: ${fault.name} (${round}); ${state.active.size} are going on, ${state.finished} have ended, ${state.typed} lines were typed, ${state.moved} sandboxes have moved`,
      );
      state.faultUntil = Number.POSITIVE_INFINITY;
      for (const conversation of state.active) conversation.faults += 1;
      await noteLogs(state);
      state.happened.push({ at: Date.now(), name: `${fault.name} (${round})` });
      await fault.run(between);
      state.happened.push({ at: Date.now(), name: `end of ${round}` });
      state.faultUntil = Date.now() + aftermathMs;
      await noteLogs(state);
    }
    state.closing = true;
    await all;
    const { takeovers } = state;
    const restored = cluster.lines().filter((line) => line.includes('"kept files restored"')).length;
    log(
      `${at()}: all ${state.finished} conversations have ended, ${state.problems.length} wrong; ${failed.size} calls failed and were made again; ` +
        `the files of ${state.moved} sandboxes were taken away, and restored ${restored} times; ` +
        `${takeovers.length} conversations lost their node and had their next event after ${quantile(takeovers, 0.5)} ms (p50), ${quantile(takeovers, 0.95)} ms (p95)`,
    );
    for (const problem of state.problems) log(`  ${problem}`);
    for (const what of [...failed].slice(0, 20)) log(`  ${what.replaceAll("\n", " ")}`);
  } finally {
    state.closing = true;
    for (const { key } of users) await removeSandboxes(cluster.caller(key)).catch(() => {});
    await cluster.close();
    await blobs?.close();
    const lines = cluster.lines();
    const isMeant = (line: string) => line.includes("DatabaseUnavailable");
    state.problems.push(...lines.filter((line) => /"level":[56]0/.test(line) && !isMeant(line)).slice(0, 20));
    await models.close();
    mcp.close();
    await rm(dataDir, { recursive: true, force: true });
    // The folder stays when it has something to say.
    await rmdir(state.folder).catch(() => {});
  }
  const { problems, takeovers, folder } = state;
  return { problems, takeovers, folder };
}

/** Notes the logs of all conversations in progress. */
async function noteLogs({ active, cluster }: NodesState): Promise<void> {
  for (const { earlier, id } of active) earlier.push(await cluster.logs.readAll(id));
}

/**
 * Returns users that together have this many conversations. The forks of the first two users accept
 * a further message.
 */
function spread(conversations: number): Worker[] {
  const [plain, whole, talked] = workers() as [Worker, Worker, Worker];
  const third = Math.floor(conversations / 3);
  const more = (task: Task): Task => ({
    ...task,
    asked: { ...task.asked, [userWish]: [[mark("thirteen")]] },
  });
  return [
    { ...plain, task: more(plain.task), lanes: conversations - 2 * third },
    { ...whole, task: more(whole.task), lanes: third },
    { ...talked, lanes: third },
  ];
}
