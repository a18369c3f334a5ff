import { startRemoteMcp } from "@sandpiper/agent/test/support/remote-mcp";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { TestEndpoint } from "../support/callback-receiver.ts";
import { type Json, startTestPlatform, type TestPlatform, until } from "../support/platform.ts";

/** The trace of a client (agent-server-1.58.md section 3.1) in requests for its conversation. */

const operators = new TestEndpoint();
let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;

const ids = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";
const traceparent = `00-${ids}-01`;
const other = `00-${ids.replace("0af7", "1af7")}-00`;
const parentHeader = "X-OpenHands-Observability-Parent-Span-Context";

beforeAll(async () => {
  models = await startModelServer(() => reply.text("Done."));
  await operators.listen();
  platform = await startTestPlatform({
    outboundPrivate: ["127.0.0.0/8"],
    webhook: { url: operators.url, secret: null, format: "signed" },
  });
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
  await operators.close();
});

async function create(headers: Record<string, string>, change: Json = {}): Promise<string> {
  const { status, body } = await agent.call(
    "POST",
    "/api/conversations",
    sdkRequest(models.url, change),
    headers,
  );
  expect(status, JSON.stringify(body)).toBe(201);
  return body.id;
}

/** Runs a turn; returns the trace headers of its model calls. */
async function runTurn(id: string): Promise<unknown[]> {
  const from = models.requests.length;
  const said = { role: "user", content: [{ type: "text", text: "Hello" }], run: true };
  expect((await agent.call("POST", `/api/conversations/${id}/events`, said)).status).toBe(200);
  await until(
    async () => (await agent.call("GET", `/api/conversations/${id}`)).body.execution_status === "finished",
  );
  return models.requests
    .slice(from)
    .map(({ headers }) => [headers.traceparent, headers.tracestate].filter((one) => one !== undefined));
}

test("a trace goes along to the model, the client's MCP servers and the user's callbacks", async () => {
  const mcp = await startRemoteMcp();
  const callback = await new TestEndpoint().listen();
  const { agent: given } = sdkRequest(models.url);
  const id = await create(
    { traceparent, tracestate: "rojo=1" },
    { agent: { ...given, mcp_config: { remote: { url: mcp.url } } } },
  );
  const processor = { kind: "WebhookCallbackProcessor", url: callback.url };
  expect(
    (await platform.call("POST", `/api/v1/app-conversations/${id}/callbacks`, processor)).status,
  ).toBeLessThan(300);
  const calls = await runTurn(id);
  expect(calls.length).toBeGreaterThan(0);
  for (const one of calls) expect(one).toEqual([traceparent, "rojo=1"]);
  expect(mcp.seen.length).toBeGreaterThan(0);
  for (const one of mcp.seen) expect(one).toMatchObject({ traceparent, tracestate: "rojo=1" });
  const [delivered] = await callback.requests(1);
  expect(delivered!.headers).toMatchObject({ traceparent, tracestate: "rojo=1" });
  // The operator's endpoint is none that the user named.
  const [reported] = await operators.requests(1);
  expect(reported!.headers).not.toHaveProperty("traceparent");
  await callback.close();
  await mcp.close();
});

test("the body and the reference's header come before the standard's, and what is no trace counts as absent", async () => {
  const body = { observability_parent_span_context: other };
  expect(await runTurn(await create({ traceparent }, body))).toEqual([[other]]);
  expect(await runTurn(await create({ traceparent, [parentHeader]: other }))).toEqual([[other]]);
  expect(await runTurn(await create({ traceparent, [parentHeader]: "no trace" }))).toEqual([[traceparent]]);
  const wrong = { traceparent: `00-${ids}-01-x`, tracestate: "a=b", [parentHeader]: '{"trace_id": "x"}' };
  expect(await runTurn(await create(wrong))).toEqual([[]]);
  expect(await runTurn(await create({ traceparent, tracestate: "A=b" }))).toEqual([[traceparent]]);
});

test("headers that the user configured for the model win", async () => {
  const { agent: given } = sdkRequest(models.url);
  const llm = { ...given.llm, extra_headers: { Traceparent: other } };
  expect(await runTurn(await create({ traceparent }, { agent: { ...given, llm } }))).toEqual([[other]]);
});
