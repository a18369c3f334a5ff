import { asFetch } from "@sandpiper/core/outbound/as-fetch";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import { afterEach, expect, test } from "vitest";
import { type ModelServer, reply, startModelServer } from "../test/support/model-server.ts";
import type { ModelRequest } from "./model.ts";
import { createOpenModel } from "./open.ts";

/**
 * Models at addresses that users name, on a server with several users: the guarded way out, with a
 * real model server behind it.
 */

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

async function modelServer(): Promise<ModelServer> {
  const server = await startModelServer(({ index }) =>
    index === 0 ? reply.text("The answer in some pieces.") : reply.text("Again."),
  );
  ends.push(() => server.close());
  return server;
}

function opener(allowPrivate: string[]) {
  const outbound = createOutbound({ allowPrivate });
  ends.push(() => outbound.close());
  const guardedFetch = asFetch(outbound, { timeoutMs: 20_000, maxBytes: 1024 * 1024 });
  return createOpenModel({ env: {}, times: { retryDelays: [1] }, guardedFetch });
}

function request(deltas: string[] = []): ModelRequest {
  return {
    system: ["You are an agent."],
    messages: [{ role: "user", content: [{ type: "text", text: "Hello" }] }],
    tools: [],
    signal: AbortSignal.timeout(150_000),
    onDelta: (delta) => void deltas.push(JSON.stringify(delta)),
    onRetry() {},
  };
}

test.each(["openai/gpt-5", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash"])(
  "%s is streamed from an allowed range",
  async (model) => {
    const { url, requests } = await modelServer();
    const deltas: string[] = [];
    const opened = opener(["127.0.0.0/8"])({ model, apiKey: "sk-guarded-key", baseUrl: url, guarded: true });
    expect((await opened.complete(request(deltas))).text).toBe("The answer in some pieces.");
    expect(deltas.length).toBeGreaterThan(1);
    expect(requests[0]!.apiKey).toBe("sk-guarded-key");
  },
);

test("only the operator may use a private address; others get an error", async () => {
  const { url, requests } = await modelServer();
  const open = opener([]);
  const config = { model: "openai/gpt-5", apiKey: "sk-guarded-key", baseUrl: url };
  for (const baseUrl of [
    url,
    url.replace("127.0.0.1", "localhost"),
    url.replace("127.0.0.1", "[::ffff:127.0.0.1]"),
    "http://169.254.169.254",
  ]) {
    const refused = open({ ...config, baseUrl, guarded: true }).complete(request());
    await expect(refused).rejects.toThrow("private or reserved address");
  }
  expect(requests).toEqual([]);
  expect((await open(config).complete(request())).text).toBe("The answer in some pieces.");
});

test("a refused connection is retried, as with any other model", async () => {
  const server = await modelServer();
  await ends.shift()!();
  const notices: string[] = [];
  const model = opener(["127.0.0.0/8"])({
    model: "openai/gpt-5",
    apiKey: "sk-guarded-key",
    baseUrl: server.url,
    guarded: true,
  });
  const call = model.complete({ ...request(), onRetry: ({ reason }) => void notices.push(reason) });
  await expect(call).rejects.toThrow("openai/gpt-5");
  expect(notices.length).toBe(1);
});
