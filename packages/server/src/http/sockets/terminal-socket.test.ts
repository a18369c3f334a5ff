import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { ServiceBench } from "../../../test/support/sandbox-service.ts";
import { serveTerminal } from "./terminal-socket.ts";

const idle = { pauseAfterMs: 1_000, hibernateAfterMs: 1_000, deleteAfterMs: 0 };
const busyMs = 150;

let bench: ServiceBench;
let sockets: WebSocketServer;

beforeEach(async () => {
  bench = await new ServiceBench().open();
  sockets = new WebSocketServer({ port: 0, host: "127.0.0.1" });
});
afterEach(async () => {
  for (const socket of sockets.clients) socket.terminate();
  sockets.close();
  await bench.end();
});

test("an active terminal keeps its sandbox awake; an idle one is paused with it, and closed by hibernation", async () => {
  const sandboxes = await bench.serve({ idle });
  const { id } = await sandboxes.create("me");
  const limits = { terminals: new KeyedSemaphore([1]), busyMs };
  const services = { sandboxes, scheduler: new EventLoopScheduler(), logger: pino({ level: "silent" }) };
  const caller = { userId: "me", sandboxId: id, source: "" };
  sockets.on("connection", (socket) =>
    serveTerminal(
      { socket, caller, credential: async () => caller },
      new URLSearchParams(),
      services,
      limits,
    ),
  );
  const client = new WebSocket(`ws://127.0.0.1:${(sockets.address() as AddressInfo).port}`);
  await once(client, "open");
  client.send("while [ ! -e /tmp/quiet ]; do echo at work; sleep 0.02; done\r");
  const row = () => sandboxes.get("me", id);
  for (let i = 0; i < 10; i++) {
    await once(client, "message");
    await bench.pass(1_000);
    expect((await row())?.status).toBe("RUNNING");
  }
  await (await sandboxes.running(id)).exec({ argv: ["touch", "/tmp/quiet"] });
  const closed = once(client, "close");
  while ((await row())?.status !== "PAUSED") {
    await new Promise((resolve) => setTimeout(resolve, 20));
    await bench.pass(1_000);
  }
  expect(client.readyState).toBe(client.OPEN);
  await bench.pass(1_000);
  const [code, reason] = await closed;
  expect([code, String(reason)]).toEqual([1001, "The sandbox was stopped: connect again to wake it"]);
});
