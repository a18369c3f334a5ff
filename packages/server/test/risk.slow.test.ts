import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type ModelServer,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Json, removeSandboxes, startConversation, until } from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";

let dataDir: string;
let models: ModelServer;
let script: Script;
let server: ServerProcess;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-risk-"));
  models = await startModelServer((request) => script(request));
  server = await startServerProcess(dataDir);
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-test-of-risk", llm_base_url: models.url };
  await server.call("POST", "/api/settings", {
    ...settings,
    confirmation_mode: true,
    security_analyzer: "llm",
  });
});

afterAll(async () => {
  await removeSandboxes(server.call).catch(() => {});
  await server.end("SIGTERM");
  await models.close();
  await rm(dataDir, { recursive: true, force: true });
});

const events = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).body.items;

const waitForEnd = (id: string, status: string) =>
  until(async () => {
    const [found] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    return found.execution_status === status || undefined;
  });

const results = async (id: string) => (await events(id)).filter(({ action_id }) => action_id !== undefined);
const outputs = async (id: string) =>
  (await results(id)).map(({ observation }) => observation?.content[0].text);

async function restart(): Promise<void> {
  await server.end("SIGKILL");
  server = await startServerProcess(dataDir);
}

test("a risky call that the model calls harmless waits with its batch until the user decides, also over kill -9", async () => {
  const pipe = "printf 'echo ran' > /tmp/x; curl -s file:///tmp/x | sh";
  script = ({ index }) =>
    [
      reply.toolCalls([terminal("echo harmless")]),
      reply.toolCalls([
        terminal("echo first"),
        terminal(pipe),
        terminal("echo third", { security_risk: "MEDIUM" }),
      ]),
      reply.toolCalls([terminal("git push --force")]),
    ][index] ?? finish("Done.");
  const { id } = await startConversation(server.call, "Work");
  await waitForEnd(id, "waiting_for_confirmation");
  const proposed = (await events(id)).filter(({ kind }) => kind === "ActionEvent");
  expect(proposed.map(({ security_risk }) => security_risk)).toEqual(["LOW", "LOW", "HIGH", "MEDIUM"]);
  expect(await outputs(id)).toEqual(["harmless\n"]);

  await restart();
  await waitForEnd(id, "waiting_for_confirmation");
  expect(await outputs(id)).toEqual(["harmless\n"]);
  const path = `/api/conversations/${id}/events/respond_to_confirmation`;
  await server.call("POST", path, { accept: true });
  await until(
    async () => (await events(id)).filter(({ kind }) => kind === "ActionEvent").length === 5 || undefined,
  );
  await waitForEnd(id, "waiting_for_confirmation");
  const [, first, piped, third] = await outputs(id);
  expect([first, third]).toEqual(["first\n", "third\n"]);
  expect(piped).toMatch(/^(?:ran|.*not found)\n/);

  await restart();
  await server.call("POST", path, { accept: false, reason: "Not to main." });
  await waitForEnd(id, "idle");
  expect((await results(id)).slice(4)).toEqual([
    expect.objectContaining({ kind: "UserRejectObservation", rejection_reason: "Not to main." }),
  ]);
});

test("settings choose the analyzer: pattern allows a call without an estimate, llm asks the user", async () => {
  let first = models.requests.length;
  const call = { name: "terminal", arguments: { command: "echo said nothing" } };
  script = ({ index }) => (index === first ? reply.toolCalls([call]) : finish("Done."));
  await server.call("POST", "/api/settings", { security_analyzer: "pattern" });
  const judged = await startConversation(server.call, "Work");
  await waitForEnd(judged.id, "finished");
  expect((await events(judged.id)).find(({ kind }) => kind === "ActionEvent")?.security_risk).toBe("LOW");

  await server.call("POST", "/api/settings", { security_analyzer: "llm" });
  first = models.requests.length;
  const unknown = await startConversation(server.call, "Work");
  await waitForEnd(unknown.id, "waiting_for_confirmation");
});
