import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Cluster } from "@sandpiper/server/test/chaos/nodes/cluster";
import { caller, removeSandboxes, testKey, until } from "@sandpiper/server/test/support/platform";
import { parseId } from "@sandpiper/wire";
import WebSocket from "ws";
import { figures, inTurn, type Row, single } from "./measure.ts";

const samples = 200;
const nodes = 4;
const started = 40;

/** Followers through the owner of a conversation and through another node; spread of the work. */
export async function benchNodesFollowers(): Promise<Row[]> {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-bench-nodes-"));
  const env = { SANDPIPER_MAX_REQUESTS: "0", SANDPIPER_MAX_SANDBOXES: "0", SANDPIPER_LOG_LEVEL: "error" };
  const cluster = await Cluster.start({ dataDir, nodes, env });
  const call = cluster.caller(testKey);
  try {
    const ids = await startAll(cluster);
    const owners = await cluster.logs.query(
      "SELECT n.url AS node, count(*)::integer AS count FROM conversations c JOIN nodes n ON n.incarnation = c.owner GROUP BY n.url",
    );
    const counts = owners.map(({ count }) => Number(count));
    const mean = ids.length / nodes;
    const farthest = Math.max(
      ...counts.map((count) => Math.abs(count - mean)),
      counts.length < nodes ? mean : 0,
    );
    const id = ids[0]!;
    const [row] = await cluster.logs.query(
      "SELECT n.url AS node FROM conversations c JOIN nodes n ON n.incarnation = c.owner WHERE c.id = $1",
      parseId(id),
    );
    const owner = String(row!.node);
    const addresses = Array.from({ length: nodes }, (_, index) => cluster.addressOf(index));
    const other = addresses.find((address) => address !== owner)!;
    const arrivals = await Promise.all(
      [owner, other].map(async (address) => {
        const socket = await open(address, id);
        return { socket, measure: () => arrival(socket, owner, id) };
      }),
    );
    const [near, far] = (
      await inTurn(
        samples,
        arrivals.map(({ measure }) => measure),
        { block: 10 },
      )
    ).map((series) => figures(series));
    for (const { socket } of arrivals) socket.terminate();
    const [direct, passedOn] = (
      await inTurn(
        samples,
        [owner, other].map((address) => () => read(address, id)),
        { block: 10 },
      )
    ).map((series) => figures(series));
    return [
      {
        name: "message to its arrival at a follower through another node",
        unit: "ms",
        figures: far!,
        floor: { name: "a follower through the owner", figures: near! },
        target: "p50 < floor + 5 ms",
        met: far!.p50 < near!.p50 + 5,
      },
      {
        name: "GET of a conversation through another node",
        unit: "ms",
        figures: passedOn!,
        floor: { name: "GET through the owner", figures: direct! },
        target: "<= 2.5 x floor",
        met: passedOn!.p50 <= 2.5 * direct!.p50,
      },
      {
        name: `${started} conversations on ${nodes} nodes: farthest share from the mean, %`,
        unit: "count",
        figures: single((100 * farthest) / mean),
        target: "<= 20",
        met: farthest <= 0.2 * mean,
      },
    ];
  } finally {
    await removeSandboxes(call);
    await cluster.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** Time of a request for a conversation, ms. */
async function read(address: string, id: string): Promise<number> {
  const began = performance.now();
  await caller(address, testKey)("GET", `/api/conversations/${id}`);
  return performance.now() - began;
}

/** Starts conversations without a message through the proxy. */
async function startAll(cluster: Cluster): Promise<string[]> {
  const call = cluster.caller(testKey);
  const ids: string[] = [];
  for (let index = 0; index < started; index++) {
    const { body } = await call("POST", "/api/v1/app-conversations", {});
    const task = await until(async () => {
      const { body: found } = await call("GET", `/api/v1/app-conversations/start-tasks?ids=${body.id}`);
      return ["READY", "ERROR"].includes(found[0]?.status) ? found[0] : undefined;
    });
    if (task.status === "ERROR") throw new Error(task.detail);
    ids.push(task.app_conversation_id);
  }
  return ids;
}

async function open(address: string, id: string): Promise<WebSocket> {
  const url = `${address.replace("http", "ws")}/sockets/events/${id}`;
  const socket = new WebSocket(url, { headers: { "x-session-api-key": testKey } });
  await new Promise((resolve) => socket.once("message", resolve));
  // Nothing that belongs to the opening comes later.
  await delay(500);
  return socket;
}

/** From sending a message to the owner to its arrival at the socket, ms. */
async function arrival(socket: WebSocket, owner: string, id: string): Promise<number> {
  const text = crypto.randomUUID();
  const began = performance.now();
  const { promise, resolve } = Promise.withResolvers<number>();
  const look = (data: WebSocket.RawData) => {
    if (String(data).includes(text)) resolve(performance.now() - began);
  };
  socket.on("message", look);
  await caller(owner, testKey)("POST", `/api/conversations/${id}/events`, {
    ...{ role: "user", content: [{ type: "text", text }], run: false },
  });
  const took = await promise;
  socket.off("message", look);
  return took;
}
