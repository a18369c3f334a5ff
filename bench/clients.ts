import { setTimeout as delay } from "node:timers/promises";
import { fillWithHistories } from "./agent-history.ts";
import type { Exchange } from "./agent-model.ts";
import { type AgentBench, startAgentBench } from "./agent-processes.ts";
import { sdkRows } from "./clients-sdk.ts";
import { type Figures, figures, type Row, sample, single } from "./measure.ts";
import { LightSocket } from "./sockets-client.ts";
import { TimedShell } from "./timed-shell.ts";

/** A ready sandbox as its agent server's clients see it. */
interface Agent {
  /** Address of the agent server, without a slash at its end. */
  url: string;
  key: string;
  call<T = { id: string }>(method: string, path: string, body?: unknown): Promise<T>;
}

const rounds = 20;
const events = 5_000;
const idle = 200;
const crowd = 20;

/**
 * What clients wait for: steps in a real sandbox, new conversations, long histories, and the same
 * by the released Python SDK. The floor of a step is a round trip to the model and a bare exec.
 */
export async function benchClients(): Promise<Row[]> {
  let ids: string[] = [];
  const bench = await startAgentBench(async (dir) => (ids = await fillWithHistories(dir, 1, events)));
  const shell = new TimedShell();
  try {
    const agent = await openAgent(bench);
    await runSteps(agent, bench, "shell-warm", 10);
    const bare = figures(await sample(40, () => bareStep(bench, shell)));
    return [
      ...(await stepRows(agent, bench, bare)),
      await firstStep(agent, bench, bare),
      await firstEvent(agent),
      await manyAtOnce(agent, bench, bare),
      await longHistory(bench, ids[0]!),
      await idleMemory(agent, bench),
      ...(await sdkRows(bench, agent)),
    ];
  } finally {
    shell.close();
    await bench.removeSandboxes();
    await bench.end();
  }
}

/** Starts a sandbox; resolves when it is ready. */
async function openAgent(bench: AgentBench): Promise<Agent> {
  const { id } = await bench.call<{ id: string }>("POST", "/api/v1/sandboxes");
  for (;;) {
    const [found] = await bench.call<{ status: string; session_api_key: string }[]>(
      "GET",
      `/api/v1/sandboxes?id=${id}`,
    );
    if (found?.status === "RUNNING") {
      const [url, key] = [`${bench.url}/agent/${id}`, found.session_api_key];
      return { url, key, call: (method, path, body) => bench.call(method, `/agent/${id}${path}`, body) };
    }
    await delay(5);
  }
}

/** A conversation whose first message begins a run of this many steps. */
function begin(agent: Agent, name: string, steps: number) {
  return agent.call("POST", "/api/conversations", {
    workspace: { kind: "LocalWorkspace", working_dir: "/workspace/project" },
    agent_settings: {},
    initial_message: message(name, steps),
  });
}

const message = (name: string, steps: number) => ({
  ...{ role: "user", run: true },
  content: [{ type: "text", text: `bench-${name}:${steps};` }],
});

/** Begins a run and waits for its end; returns the exchanges with the model. */
async function runSteps(agent: Agent, bench: AgentBench, name: string, steps: number): Promise<Exchange[]> {
  await begin(agent, name, steps);
  await bench.rested(2);
  return (await bench.exchanges()).get(name) ?? [];
}

/** The time of a run by its number of steps. */
async function stepRows(agent: Agent, bench: AgentBench, bare: Figures): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [steps, target, times] of [
    [10, 8, rounds],
    [200, 5, 4],
  ] as const) {
    const durations: number[] = [];
    for (let round = 0; round < times; round++) {
      const all = await runSteps(agent, bench, `shell-${steps}-${round}`, steps);
      durations.push(...all.slice(1).map(({ arrived }, index) => arrived - all[index]!.arrived));
    }
    rows.push(timeRow(`a step of a run of ${steps} steps`, durations, target, bare));
  }
  return rows;
}

/** From the request that creates a conversation to the model's request with the first result. */
async function firstStep(agent: Agent, bench: AgentBench, bare: Figures): Promise<Row> {
  const durations = await sample(rounds, async (round) => {
    const began = Number(process.hrtime.bigint()) / 1e6;
    const all = await runSteps(agent, bench, `shell-first-${round}`, 1);
    return all[1]!.arrived - began;
  });
  return timeRow("first step of a conversation with a ready sandbox", durations, 30, bare);
}

/** From the request that creates a conversation to the first frame of its socket. */
async function firstEvent(agent: Agent): Promise<Row> {
  const durations = await sample(rounds, async () => {
    const began = performance.now();
    const { id } = await agent.call("POST", "/api/conversations", {
      workspace: { kind: "LocalWorkspace", working_dir: "/workspace/project" },
      agent_settings: {},
    });
    const socket = new LightSocket(
      new URL(`${agent.url}/sockets/events/${id}`),
      { "x-session-api-key": agent.key },
      () => {},
    );
    await socket.opened;
    const took = performance.now() - began;
    socket.end();
    return took;
  });
  const floor = await sample(rounds, () => agent.call("GET", "/server_info"));
  return {
    ...timeRow("create of a conversation to its first event over a socket", durations, 10, figures(floor)),
    floor: { name: "one small request", figures: figures(floor) },
  };
}

async function manyAtOnce(agent: Agent, bench: AgentBench, bare: Figures): Promise<Row> {
  const seconds = await sample(
    3,
    async (round) => {
      const began = performance.now();
      await Promise.all(
        Array.from({ length: crowd }, (_, index) => begin(agent, `shell-crowd-${round}-${index}`, 20)),
      );
      await bench.rested(2);
      return (performance.now() - began) / 1_000;
    },
    1,
  );
  const own = figures(seconds);
  return {
    name: `${crowd} conversations of 20 steps at once`,
    ...{ unit: "s", figures: own, target: "<= 2 s", met: own.p50 <= 2 },
    floor: {
      name: `${crowd * 20} bare steps in turn`,
      figures: single((bare.p50 * crowd * 20) / 1_000),
    },
  };
}

/** All events of a long conversation over a new socket. */
async function longHistory(bench: AgentBench, id: string): Promise<Row> {
  const durations = await sample(rounds, async () => {
    const began = performance.now();
    const all = Promise.withResolvers<void>();
    let seen = 0;
    const url = new URL(`${bench.url}/sockets/events/${id}?resend_all=true`);
    const socket = new LightSocket(url, bench.headers, () => {
      // The last frames are the state's.
      if (++seen === events) all.resolve();
    });
    await all.promise;
    const took = performance.now() - began;
    socket.end();
    return took;
  });
  const own = figures(durations);
  return {
    name: `${events} events over a new socket`,
    ...{ unit: "ms", figures: own, target: "<= 80 ms", met: own.p50 <= 80 },
  };
}

/** The server's memory for conversations that have just run and are still loaded. */
async function idleMemory(agent: Agent, bench: AgentBench): Promise<Row> {
  for (let index = 0; index < 20; index++) await runSteps(agent, bench, `shell-before-${index}`, 1);
  const before = await bench.memory("loaded");
  for (let index = 0; index < idle; index++) await runSteps(agent, bench, `shell-idle-${index}`, 1);
  const after = await bench.memory("loaded");
  const each = (after.heap - before.heap) / idle / 2 ** 20;
  return {
    name: `server memory of each of ${idle} idle conversations`,
    ...{ unit: "MB", figures: single(each), target: "<= 0.1 MB", met: each <= 0.1 },
  };
}

/** A plain request to the model and the start of a program. */
async function bareStep({ modelUrl }: AgentBench, shell: TimedShell): Promise<number> {
  const body = JSON.stringify({
    ...{ model: "bench", stream: true },
    messages: [{ role: "user", content: "bench-floor:0;" }],
  });
  const headers = { "content-type": "application/json" };
  const began = performance.now();
  await (await fetch(`${modelUrl}/chat/completions`, { method: "POST", headers, body })).text();
  return performance.now() - began + (await shell.time("/bin/true"));
}

function timeRow(name: string, durations: number[], target: number, floor: Figures): Row {
  const own = figures(durations);
  return {
    name,
    ...{ unit: "ms", figures: own, target: `<= ${target} ms`, met: own.p50 <= target },
    floor: { name: "a request to the model + a bare exec", figures: floor },
  };
}
