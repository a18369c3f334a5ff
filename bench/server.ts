import WebSocket from "ws";
import { type Row, single } from "./measure.ts";
import { residentMemory } from "./process.ts";
import { type BenchServer, startBenchServer } from "./server-process.ts";

/** A server's memory with idle conversations. `api.ts` measures the throughput of reads. */
export async function benchServer(): Promise<Row[]> {
  const server = await startBenchServer();
  try {
    return [await idleConversations(server)];
  } finally {
    await server.end();
  }
}

/** Conversations that exist in the server and have an open socket each, without a message. */
async function idleConversations({ url, pid, headers: own }: BenchServer): Promise<Row> {
  const headers = { ...own, "content-type": "application/json" };
  const post = async (body: object) => {
    const response = await fetch(`${url}/api/v1/app-conversations`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    return (await response.json()) as { id: string };
  };
  const ready = async (taskId: string) => {
    for (;;) {
      const response = await fetch(`${url}/api/v1/app-conversations/start-tasks?ids=${taskId}`, { headers });
      const [task] = (await response.json()) as {
        status: string;
        app_conversation_id: string;
        sandbox_id: string;
      }[];
      if (task!.status === "READY") return task!;
      if (task!.status === "ERROR") throw new Error(JSON.stringify(task));
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const open = (id: string) =>
    new Promise<WebSocket>((resolve, reject) => {
      const socket = new WebSocket(
        `${url.replace("http", "ws")}/sockets/events/${id}?session_api_key=${own["X-Session-API-Key"]}`,
      );
      socket.once("message", () => resolve(socket));
      socket.once("error", reject);
    });
  // The first few load code and fill caches; they belong to the server, not to a conversation.
  const first = await ready((await post({})).id);
  for (let index = 0; index < 20; index++) {
    const socket = await open(
      (await ready((await post({ sandbox_id: first.sandbox_id })).id)).app_conversation_id,
    );
    socket.terminate();
  }
  const before = await quietMemory(pid);
  const sockets: WebSocket[] = [];
  for (let index = 0; index < 100; index++) {
    const task = await ready((await post({ sandbox_id: first.sandbox_id })).id);
    sockets.push(await open(task.app_conversation_id));
  }
  const used = ((await quietMemory(pid)) - before) / 2 ** 20;
  for (const socket of sockets) socket.terminate();
  return {
    name: "server memory of 100 conversations, open and idle",
    unit: "MB",
    figures: single(used),
    target: "< 20 MB",
    met: used < 20,
  };
}

/** Resident memory once it no longer changes from one second to the next, bytes. */
async function quietMemory(pid: number): Promise<number> {
  let last = residentMemory(pid);
  for (let round = 0; round < 10; round++) {
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const now = residentMemory(pid);
    if (Math.abs(now - last) < 2 ** 18) return now;
    last = now;
  }
  return last;
}
