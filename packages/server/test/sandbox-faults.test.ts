import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type ModelServer,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { getInstallationGroup, listGroupMembers } from "@sandpiper/sandbox/drivers/oci/cgroup/cgroups";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import {
  type Json,
  SocketClient,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";

let folder: string;
let server: TestPlatform;
let models: ModelServer;
let script: Script;
let first = 0;

/** A crun whose `--log FILE … run` fails while the file `broken` exists. */
const runtime = (folder: string) => `#!/bin/sh
for word; do
  if [ "$word" = run ] && [ -e "${folder}/broken" ]; then echo "mount proc to proc: Operation not permitted" >"$2"; exit 1; fi
done
exec crun "$@"
`;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sandpiper-runtime-"));
  await writeFile(join(folder, "crun"), runtime(folder));
  await chmod(join(folder, "crun"), 0o755);
  models = await startModelServer((request) => script(request));
  server = await startTestPlatform({ runtime: join(folder, "crun") });
  await server.call("POST", "/api/settings", {
    llm_model: "openai/scripted",
    llm_api_key: "sk-test",
    llm_base_url: models.url,
  });
});

beforeEach(() => {
  first = models.requests.length;
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
  await rm(folder, { recursive: true, force: true });
});

const events = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).body.items;

const finished = (id: string) =>
  until(async () => {
    const [found] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    return found.execution_status === "finished" || undefined;
  });

const say = (id: string, text: string) =>
  server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text }],
    run: true,
  });

test("a sandbox that cannot start fails the start task with the reason, and nothing is left of it", async () => {
  script = () => reply.toolCalls([terminal("true")]);
  await writeFile(join(folder, "broken"), "");
  try {
    await expect(startConversation(server.call, "Work")).rejects.toThrow(
      /could not start the sandbox.*Operation not permitted/,
    );
    const { body } = await server.call("GET", "/api/v1/app-conversations/search");
    const [conversation] = body.items;
    expect(conversation.sandbox_status).toBe("ERROR");
    const last = (await events(conversation.id)).at(-1);
    expect(last).toMatchObject({ kind: "ConversationErrorEvent", code: "SandboxFailed" });
    const sandbox = (await server.call("GET", `/api/v1/sandboxes?id=${conversation.sandbox_id}`)).body[0];
    expect(sandbox).toMatchObject({
      status: "ERROR",
      status_detail: expect.stringContaining("Operation not permitted"),
    });
    // The run was cut off: the model is not asked again and again what to do without a sandbox.
    expect(models.requests.length - first).toBeLessThanOrEqual(2);
  } finally {
    await rm(join(folder, "broken"));
  }
});

test("a sandbox whose processes are killed becomes a tool error at most, and a later call works on the same files", async () => {
  let sandboxId = "";
  const kill = async () => {
    const [sandbox] = (await server.call("GET", "/api/v1/sandboxes/search?limit=1")).body.items;
    sandboxId = sandbox.id;
    const members = listGroupMembers(
      `${getInstallationGroup(join(server.dataDir, "sandboxes"))}/${sandbox.id}`,
    );
    // With the first process all others end.
    process.kill(Math.min(...members), "SIGKILL");
  };
  script = async ({ index, messages }) => {
    if (index === first) return reply.toolCalls([terminal("echo kept > note")]);
    if (index === first + 1) await kill();
    return /^kept/.test(messages.at(-1)?.text ?? "")
      ? finish("Done.")
      : reply.toolCalls([terminal("cat note")]);
  };
  const { id } = await startConversation(server.call, "Work");
  await finished(id);
  const results = (await events(id)).filter(
    ({ kind, tool_name }) => tool_name === "terminal" && kind !== "ActionEvent",
  );
  // Zero to three failures: the ends of shell and sandbox may be noticed before, in or after the
  // next call.
  expect(results.length).toBeGreaterThanOrEqual(2);
  expect(results.length).toBeLessThanOrEqual(5);
  expect(results.at(-1)?.observation.content[0].text).toBe("kept\n");
  expect((await server.call("GET", `/api/v1/sandboxes?id=${sandboxId}`)).body[0].status).toBe("RUNNING");
});

test("pausing the sandbox pauses its conversation, and a message wakes both", async () => {
  script = ({ index }) =>
    index - first === 0 ? reply.toolCalls([terminal("sleep 3; echo woken")]) : finish("Done.");
  const { id, sandboxId } = await startConversation(server.call, "Work");
  await until(async () => (await events(id)).some(({ kind }) => kind === "ActionEvent") || undefined);
  expect((await server.call("POST", `/api/v1/sandboxes/${sandboxId}/pause`, {})).status).toBe(200);
  const [paused] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
  expect(paused).toMatchObject({ sandbox_status: "PAUSED", execution_status: null, session_api_key: null });
  expect((await server.call("POST", `/api/v1/sandboxes/${sandboxId}/resume`, {})).status).toBe(200);
  await say(id, "Go on");
  await finished(id);
  expect(JSON.stringify(await events(id))).toContain("woken");
});

test("a conversation whose sandbox is deleted can be read, and using it gets a readable error", async () => {
  let round = 0;
  script = () => reply.toolCalls([terminal(`echo ${round++}`)]);
  const { id, sandboxId } = await startConversation(server.call, "Work");
  await until(async () => (await events(id)).some(({ kind }) => kind === "ObservationEvent") || undefined);
  expect((await server.call("DELETE", `/api/v1/sandboxes/${sandboxId}?sandbox_id=${sandboxId}`)).status).toBe(
    200,
  );
  expect((await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0].sandbox_status).toBe(
    "MISSING",
  );
  const last = await until(async () =>
    (await events(id)).find(({ kind }) => kind === "ConversationErrorEvent"),
  );
  expect(last).toMatchObject({
    code: "SandboxNotFound",
    detail: expect.stringMatching(/There is no sandbox/),
  });
  expect((await events(id)).findLast(({ kind }) => kind === "AgentErrorEvent")?.error).toMatch(
    /There is no sandbox/,
  );
  // Lists show a run's state only while there is a sandbox; the conversation itself shows how it
  // ended.
  const socket = SocketClient.forConversation(server, id);
  const { value } = await socket.frame((frame) => frame.key === "full_state");
  socket.close();
  expect(value.execution_status).toBe("error");
});
