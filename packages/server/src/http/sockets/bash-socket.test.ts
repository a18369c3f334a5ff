import { createConnection } from "node:net";
import { join } from "node:path";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import { toCommandJson, toOutputJson } from "@sandpiper/sandbox/shell/commands/event-json";
import { historyLimits, SandboxHistory } from "@sandpiper/sandbox/shell/commands/history";
import { hexId, newId } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { startServer, TestSocket } from "../../../test/support/test-server.ts";
import { createAuthenticator } from "../server/auth.ts";
import { attachSockets } from "./server.ts";

/**
 * Slow clients of `/sockets/bash-events`; test/bash-socket.test.ts covers the events, with real
 * sandboxes.
 */

test("a client that does not read is disconnected with little buffered, and others get everything", async () => {
  const server = await startServer();
  const { id, sessionKey } = server.addSandbox();
  const history = await SandboxHistory.load(join(server.config.dataDir, "bash", id), historyLimits);
  const command = hexId(newId());
  const row = { id: command, command: "print", cwd: null, timeout: 300 };
  const { log } = await history.begin(command, (micros) => toCommandJson(micros, row));
  const text = { stdout: JSON.stringify("x".repeat(900_000)), stderr: "null" };
  for (let order = 0; order < 40; order++)
    await history.append(log, (micros) =>
      toOutputJson(micros, command, order, order === 39 ? 0 : null, text),
    );

  server.app.server.removeAllListeners("upgrade");
  attachSockets(server.app.server, server, createAuthenticator(server), {
    stallTimeoutMs: 300,
    quota: new KeyedSemaphore([2]),
  });
  const path = `/sockets/bash-events?session_api_key=${sessionKey}&resend_mode=all`;
  const deaf = createConnection(server.port, "127.0.0.1");
  const key = Buffer.alloc(16).toString("base64");
  const upgrade = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}`;
  deaf.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${upgrade}\r\n\r\n`);
  await new Promise((resolve) => deaf.once("readable", resolve));

  const other = new TestSocket(server, path);
  await other.until(({ exit_code }) => exit_code === 0);
  expect(other.frames.map(({ order }) => order)).toEqual([
    undefined,
    ...Array.from({ length: 40 }, (_, order) => order),
  ]);
  const third = new TestSocket(server, path);
  expect(await third.closed).toMatchObject({ code: 1013, reason: expect.stringMatching(/Too many sockets/) });

  // Disconnected while it does not read: it then gets the kernel's buffer, and the close frame
  // last.
  await expect
    .poll(() => server.logs.filter((line) => line.includes("a slow socket was cut off")))
    .toHaveLength(1);
  let [received, end] = [0, ""];
  deaf.on("data", (chunk: Buffer) => {
    received += chunk.length;
    end = (end + chunk.toString("latin1")).slice(-200);
  });
  await expect.poll(() => end).toContain("Too slow: reconnect with resend_mode=all");
  expect(received).toBeLessThan(20_000_000);
  deaf.destroy();
  other.socket.close();
  await server.close();
});
