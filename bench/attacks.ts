import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { findAttacks } from "./attacks-list.ts";
import type { Target } from "./attacks-target.ts";
import type { Watched } from "./attacks-watch.ts";
import { figures, type Row, single } from "./measure.ts";
import { startProgram, stopProgram } from "./process.ts";
import { type BenchServer, startBenchServer } from "./server-process.ts";

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));
/** How long each attack lasts, ms; some requests of the watcher are under way when it begins. */
const attackMs = 4_000;
const settleMs = 1_000;
const maxP99 = 50;
/** Longest round of the server's event loop, ms of processor time: nobody is answered meanwhile. */
const maxRound = 25;

/**
 * What others see while one client attacks: how quickly `/health` answers over new connections,
 * beside a server that is not attacked and beside a bare `node:http` server under the same attack;
 * and the longest round of the attacked server's event loop. `names` chooses attacks.
 */
export async function benchAttacks(names: readonly string[]): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "sandpiper-bench-"));
  const body = join(folder, "health.json");
  writeFileSync(body, '"OK"');
  const attacked = await startBenchServer();
  const idle = await startBenchServer();
  const plain = await startProgram([file("floor-http.ts")], { BODY_FILE: body }, /\d+/);
  const bareUrl = `http://127.0.0.1:${plain.match[0]}`;
  const servers = [attacked, idle, { url: bareUrl, pid: plain.child.pid! }];
  const watched = servers.map(({ url, pid }) => JSON.stringify({ url, pid }));
  const watch = fork(file("attacks-watch.ts"), watched);
  const rows: Row[] = [];
  try {
    const target = await prepare(attacked);
    for (const attack of findAttacks(names)) {
      await attacked.longestRound();
      const [ours, beside] = await watchAttack(watch, attack.name, target);
      const round = await attacked.longestRound();
      const bare = attack.needsPlatform
        ? undefined
        : (await watchAttack(watch, attack.name, { ...target, url: bareUrl }))[2];
      const work = figures(ours!.work);
      rows.push(toRow(attack.name, ours!, beside!, bare), {
        ...{ name: `work of the server until its answer: ${attack.name}`, unit: "ms", figures: work },
        ...{ target: `p99 < ${maxP99} ms of processor time`, met: work.p99 < maxP99 },
        ...(bare && { floor: { name: "bare http, same attack", figures: figures(bare.work) } }),
      });
      rows.push({
        ...{ name: `longest round: ${attack.name}`, unit: "ms", figures: single(round) },
        ...{ target: `< ${maxRound} ms of processor time`, met: round < maxRound },
      });
    }
    return rows;
  } finally {
    watch.disconnect();
    await stopProgram(plain.child);
    await attacked.end();
    await idle.end();
    rmSync(folder, { recursive: true });
  }
}

/** An attack is met where /health is as quick as asked, or as at one of the floors. */
function toRow(attack: string, ours: Watched, beside: Watched, bare: Watched | undefined): Row {
  const [own, idle] = [figures(ours.times), figures(beside.times)];
  const floor = bare && figures(bare.times);
  const lost = ours.lost === 0 ? "" : `, ${ours.lost} lost`;
  const floors = `2 x idle server (${idle.p99.toFixed(0)})${floor ? `, bare http under attack (${floor.p99.toFixed(0)})` : ""}`;
  const limit = Math.max(maxP99, 2 * idle.p99, floor?.p99 ?? 0);
  return {
    ...{ name: `/health of others: ${attack}${lost}`, unit: "ms", figures: own },
    floor: floor
      ? { name: "bare http, same attack", figures: floor }
      : { name: "idle server", figures: idle },
    ...{ target: `p99 < ${maxP99} or ${floors}`, met: own.p99 < limit && ours.lost === 0 },
  };
}

async function watchAttack(watch: ChildProcess, name: string, target: Target): Promise<Watched[]> {
  await delay(settleMs);
  await look(watch);
  const attacker = fork(file("attacks-client.ts"), [name, JSON.stringify(target), `${attackMs}`]);
  await once(attacker, "exit");
  return look(watch);
}

async function look(watch: ChildProcess): Promise<Watched[]> {
  watch.send("look");
  const [answer] = (await once(watch, "message")) as [Watched[]];
  return answer;
}

/** Makes what the attacks use: a sandbox, and a conversation with a log. */
async function prepare(server: BenchServer): Promise<Target> {
  const { url } = server;
  const key = server.headers["X-Session-API-Key"]!;
  const headers = { ...server.headers, "content-type": "application/json" };
  const post = async (path: string, body: object) => {
    const answer = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`POST ${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as { id: string };
  };
  const { id } = await post("/api/v1/app-conversations", {});
  for (;;) {
    const answer = await fetch(`${url}/api/v1/app-conversations/start-tasks?ids=${id}`, { headers });
    const [task] = (await answer.json()) as {
      status: string;
      app_conversation_id: string;
      sandbox_id: string;
    }[];
    if (task!.status === "ERROR") throw new Error(JSON.stringify(task));
    if (task!.status !== "READY") {
      await delay(20);
      continue;
    }
    const conversationId = task!.app_conversation_id;
    const content = [{ type: "text", text: "x".repeat(2_000) }];
    for (let index = 0; index < 500; index++)
      await post(`/api/conversations/${conversationId}/events`, { role: "user", content, run: false });
    return { url, key, sandboxId: task!.sandbox_id, conversationId };
  }
}
