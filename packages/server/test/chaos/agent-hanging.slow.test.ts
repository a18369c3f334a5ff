import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, removeSandboxes, until } from "../support/platform.ts";
import { obey } from "../support/script.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

/** A model that answers the agent and never answers side questions. */

let dataDir: string;
let models: ModelServer;
let server: ServerProcess;
let agent: AgentServer;
let asked = 0;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-hanging-"));
  models = await startModelServer((request) => {
    const { system, messages } = request;
    const last = messages.at(-1)!;
    if (/You judge whether|You keep the memory/.test(system) || last.text === "aside") {
      asked += 1;
      return reply.hang();
    }
    return obey(request);
  });
  server = await startServerProcess(dataDir, { SANDPIPER_MAX_RUNS: "2", SANDPIPER_MAX_REQUESTS: "100000" });
  agent = await startAgentServer(server);
});

afterAll(async () => {
  await removeSandboxes(server.call).catch(() => {});
  await server.end("SIGTERM");
  await models.close();
  await rm(dataDir, { recursive: true, force: true });
});

const base = (id: string) => `/api/conversations/${id}`;
const info = async (id: string): Promise<Json> => (await agent.call("GET", base(id))).body;

/** A conversation with enough history for a summary. */
async function make(): Promise<string> {
  const { id } = (
    await agent.call("POST", "/api/conversations", sdkRequest(models.url, { autotitle: false }))
  ).body;
  for (const text of ["run: echo one", "run: echo two"]) {
    await agent.call("POST", `${base(id)}/events`, {
      role: "user",
      content: [{ type: "text", text }],
      run: true,
    });
    await until(async () => (await info(id)).execution_status === "finished" || undefined);
  }
  return id;
}

const condense = (id: string) => agent.call("POST", `${base(id)}/condense`);
const taken = (count: number) => until(() => asked >= count || undefined);

test("an unanswered condensation request ends when it is interrupted and when its conversation is deleted", async () => {
  const [one, two, three] = [await make(), await make(), await make()];
  const before = asked;
  const answers = [condense(one), condense(two)];
  await taken(before + 2);
  // There are places for two: this one waits.
  const waiting = condense(three);
  await until(
    async () =>
      (await agent.call("GET", `${base(three)}/events/count?kind=CondensationRequest`)).body === 1 ||
      undefined,
  );
  expect((await agent.call("POST", `${base(one)}/interrupt`)).status).toBe(200);
  expect(await answers[0]).toMatchObject({
    status: 502,
    body: { detail: expect.stringContaining("interrupted") },
  });
  await taken(before + 3);
  expect((await agent.call("DELETE", base(two))).status).toBe(200);
  expect((await answers[1])!.status).toBe(502);
  expect((await agent.call("DELETE", base(three))).status).toBe(200);
  expect((await waiting).status).toBe(502);
  expect((await info(one)).execution_status).toBe("paused");
}, 60_000);

test("a silent model delays nothing else, a goal can be stopped while it is judged, and the server ends at once", async () => {
  const id = await make();
  const before = asked;
  expect((await agent.call("POST", `${base(id)}/goal`, { objective: "All is well" })).status).toBe(200);
  await taken(before + 1);
  const [other, another] = [await make(), await make()];
  const hung = [agent.call("POST", `${base(other)}/ask_agent`, { question: "aside" }), condense(another)].map(
    (call) => call.catch(() => undefined),
  );
  await taken(before + 3);
  const times: number[] = [];
  for (let count = 0; count < 100; count++) {
    const began = performance.now();
    const { status } =
      count % 2 ? await agent.call("GET", "/api/conversations/search") : await server.call("GET", "/health");
    times.push(performance.now() - began);
    expect(status).toBe(200);
  }
  expect(times.sort((a, b) => a - b)[98]).toBeLessThan(5_000);
  // A goal that is stopped and resumed during its judgement is judged again.
  expect((await agent.call("POST", `${base(id)}/goal/stop`)).status).toBe(200);
  expect((await agent.call("POST", `${base(id)}/goal/resume`)).status).toBe(200);
  const began = Date.now();
  expect(await server.end("SIGTERM")).toBe(0);
  expect(Date.now() - began).toBeLessThan(30_000);
  await Promise.all(hung);

  const judged = asked;
  server = await startServerProcess(dataDir, { SANDPIPER_MAX_REQUESTS: "100000" });
  agent = { ...agent, call: (method, path, body) => server.call(method, path, body) };
  expect((await info(id)).agent_state.goal.status).toBe("running");
  // It is judged by the next process.
  await taken(judged + 1);
  expect((await agent.call("POST", `${base(id)}/goal/stop`)).status).toBe(200);
  expect((await info(id)).agent_state.goal.status).toBe("interrupted");
}, 60_000);
