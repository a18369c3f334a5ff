import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { buffer } from "node:stream/consumers";
import { invalid } from "@sandpiper/core/test/support/stub";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { echo, type PreviewAnswer, PreviewBench } from "../../../test/support/preview.ts";
import { key } from "../../../test/support/test-server.ts";
import { createAuthenticator } from "../server/auth.ts";
import { createPreviews, type PreviewLimits, previewLimits } from "./preview.ts";

let bench: PreviewBench;
let host: string;
beforeAll(async () => {
  bench = await PreviewBench.start();
  host = bench.host(8000);
  await bench.app(8000, echo);
  await bench.app(8001, echo);
});
afterAll(() => bench.close());

test("a misbehaving app causes a readable error, and the server keeps running", async () => {
  const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n";
  const cases: [answer: string, status: number, text: RegExp][] = [
    ["", 502, /closed the connection without an answer/],
    ["HTTP/1.1 200 OK\r\nContent-", 502, /closed the connection|valid HTTP/],
    ["hello\r\n\r\n", 502, /valid HTTP/],
    ["HTTP/1.1 999999 OK\r\n\r\n", 502, /valid HTTP/],
    [`${ok}Content-Length: 3\r\n\r\nok`, 502, /valid HTTP/],
    [`${ok}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 502, /valid HTTP/],
    ["HTTP/1.1 007 OK\r\nContent-Length: 0\r\n\r\n", 502, /valid HTTP/],
    [`${ok}X-Big: ${"x".repeat(70_000)}\r\n\r\nok`, 502, /too large headers/],
    [
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
      502,
      /valid HTTP|closed the connection/,
    ],
    [`HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n${ok}\r\nok`, 200, /^ok$/],
    [`${ok}Connection: upgrade\r\nUpgrade: h2c\r\n\r\nok`, 200, /^ok$/],
    [`${ok}Connection: content-length, x-secret\r\nX-Secret: 1\r\n\r\nok`, 200, /^ok$/],
    [`${ok}Location: \xff\xfe\r\nSet-Cookie: \xff=\x80\r\n\r\nok`, 200, /^ok$/],
    [`${ok}\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond`, 200, /^ok$/],
  ];
  let answer = "";
  await bench.rawApp(8004, (socket) => socket.once("data", () => socket.end(answer, "latin1")));
  for (const [text, status, expected] of cases) {
    answer = text;
    const got: PreviewAnswer = await bench.call("/", { host: bench.host(8004) });
    expect([text.slice(0, 80), got.status]).toEqual([text.slice(0, 80), status]);
    expect(got.text).toMatch(expected);
  }
  answer = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
  await expect(bench.call("/", { host: bench.host(8004) })).rejects.toThrow(/aborted/);
  answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nX-Own: 1\r\n\r\nno";
  const socket = new WebSocket(`ws://127.0.0.1:${bench.server.port}/`, {
    headers: { host: bench.host(8004), "x-session-api-key": key },
  });
  const [, refusal] = (await once(socket, "unexpected-response")) as [unknown, IncomingMessage];
  expect([refusal.statusCode, refusal.headers["x-own"], (await buffer(refusal)).toString()]).toEqual([
    403,
    "1",
    "no",
  ]);
  answer = "HTTP/1.1 200 OK\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nok";
  const unwilling = new WebSocket(`ws://127.0.0.1:${bench.server.port}/`, {
    headers: { host: bench.host(8004), "x-session-api-key": key },
  });
  const [, plain] = (await once(unwilling, "unexpected-response")) as [unknown, IncomingMessage];
  expect([plain.statusCode, (await buffer(plain)).toString()]).toEqual([200, "ok"]);
  expect((await bench.call("/health", { key: null })).status).toBe(200);
});

/** Calls previews with other limits. */
async function limited(
  change: Partial<PreviewLimits>,
  use: (
    ask: (to: string) => Promise<{ status: number | undefined; answer: IncomingMessage }>,
  ) => Promise<void>,
): Promise<void> {
  const { config, sandboxes, grants, logger } = bench.server;
  const authenticator = createAuthenticator(bench.server);
  const limits = { ...previewLimits, ...change };
  const server = createServer((request, response) => void previews.request(request, response));
  const previews = createPreviews(
    {
      config,
      sandboxes,
      grants,
      logger,
      connections: { identify: () => {} },
      live: { hold: () => () => {} },
    },
    authenticator,
    () => server,
    limits,
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  try {
    await use(async (to) => {
      const call = httpRequest({ port, headers: { host: to, "x-session-api-key": key }, agent: false });
      const [answer] = (await once(call.end(), "response")) as [IncomingMessage];
      return { status: answer.statusCode, answer };
    });
  } finally {
    previews.close();
    server.closeAllConnections();
    server.close();
  }
}

test("an app that never responds times out, and its connection ends", async () => {
  let cut: Promise<unknown> | undefined;
  await bench.rawApp(8005, (socket) => {
    cut = once(socket.resume(), "close");
  });
  await limited({ answerMs: 50 }, async (ask) => {
    const { status, answer } = await ask(bench.host(8005));
    expect([status, (await buffer(answer)).toString()]).toEqual([
      504,
      expect.stringContaining("did not answer within 0.05 s"),
    ]);
    await cut;
  });
});

test("a sandbox that does not wake times out, and a late connection is closed", async () => {
  const late = { destroy: vi.fn(), on() {} };
  const waking = Promise.withResolvers<Duplex>();
  const connecting = vi.spyOn(bench.server.sandboxes, "connect").mockReturnValueOnce(waking.promise);
  await limited({ connectMs: 50 }, async (ask) => {
    const { status, answer } = await ask(host);
    expect([status, (await buffer(answer)).toString()]).toEqual([
      504,
      expect.stringContaining("did not become ready"),
    ]);
  });
  waking.resolve(invalid(late));
  await expect.poll(() => late.destroy).toHaveBeenCalled();
  connecting.mockRestore();
});

test("connections per sandbox are limited, and an ended one frees its slot", async () => {
  await bench.app(8006, (_request, response) => response.writeHead(200).flushHeaders());
  await limited({ connections: 2 }, async (ask) => {
    const [one] = [await ask(bench.host(8006)), await ask(bench.host(8006))];
    expect((await ask(bench.host(8006))).status).toBe(503);
    one.answer.destroy();
    await expect.poll(async () => (await ask(bench.host(8006))).status).toBe(200);
  });
});
