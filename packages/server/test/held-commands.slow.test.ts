import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type ModelServer,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type Json, removeSandboxes, SocketClient, startConversation, until } from "./support/platform.ts";
import { finish, obey, terminal } from "./support/script.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";

let dataDir: string;
let models: ModelServer;
let script: Script;
let server: ServerProcess;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-held-"));
  server = await startServerProcess(dataDir);
});

beforeEach(async () => {
  models = await startModelServer((request) => script(request));
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
});

afterEach(async () => {
  await removeSandboxes(server.call).catch(() => {});
  await models.close();
});

afterAll(async () => {
  await server?.end("SIGTERM");
  await rm(dataDir, { recursive: true, force: true });
});

const events = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).body.items;

const results = async (id: string) =>
  (await events(id)).filter((event) => event.observation?.kind === "TerminalObservation");

const waitForEnd = (id: string) =>
  until(async () => {
    const [found] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    return found.execution_status === "finished" || undefined;
  });

/** Runs the calls one after the other, then finishes. */
function runAll(...calls: readonly ReturnType<typeof terminal>[]): Script {
  return ({ messages }) => {
    const done = messages.filter(({ role }) => role === "tool").length;
    return calls[done] ? reply.toolCalls([calls[done]]) : finish("Done.");
  };
}

/** Resolves when a command has printed the text. */
function printed(id: string, text: string): Promise<Json> {
  const socket = SocketClient.forConversation(server, id, "&resend_mode=all");
  return socket.frame(({ key, value }) => {
    const state = key === "full_state" ? value.agent_state : value;
    return state?.tool_progress?.output?.includes(text) === true;
  });
}

async function restart(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
  await server.end(signal);
  server = await startServerProcess(dataDir);
}

const numbers = Array.from({ length: 40 }, (_, at) => `line ${at + 1}\n`).join("");
const counting = "for i in $(seq 1 40); do echo line $i; sleep 0.1; done; (exit 3)";

test.each(["SIGKILL", "SIGTERM"] as const)(
  "a command that runs at a %s goes on, and its result is whole",
  async (signal) => {
    script = runAll(terminal(`cd /tmp; export KEPT=1; ${counting}`), terminal("echo $? $KEPT $PWD"));
    const { id } = await startConversation(server.call, "Count");
    await printed(id, "line 3\n");
    await restart(signal);
    await waitForEnd(id);
    const [first, second] = await results(id);
    expect(first?.observation).toMatchObject({ content: [{ text: numbers }], exit_code: 3, is_error: false });
    expect(second?.observation).toMatchObject({ content: [{ text: "3 1 /tmp\n" }] });
    const read = models.requests.map(({ messages }) => messages.map(({ text }) => text).join("\n"));
    expect(read.at(-1)).toContain(numbers);
    expect(read.join("\n")).not.toContain("interrupted");
  },
);

test("a command goes on over two kills, and its time limit counts from its begin", async () => {
  script = runAll(terminal("echo begin; sleep 60", { timeout: 8 }));
  const { id } = await startConversation(server.call, "Wait");
  const began = performance.now();
  await printed(id, "begin");
  await restart();
  await until(async () => (await server.call("GET", "/health")).status === 200 || undefined);
  await restart();
  await waitForEnd(id);
  expect(performance.now() - began).toBeLessThan(20_000);
  const [{ observation }] = (await results(id)) as [Json];
  expect(observation).toMatchObject({ content: [{ text: "begin\n" }], exit_code: -1 });
  expect(observation.metadata.suffix).toMatch(/still running after 8 seconds/);
});

test("a command that its time limit left running is looked at after a kill", async () => {
  const wait = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  script = async (request) => {
    if (request.messages.filter(({ role }) => role === "tool").length === 1) {
      asked.resolve();
      await wait.promise;
    }
    return runAll(
      terminal("echo one; sleep 3; echo two; exit_code() { return 4; }; exit_code", { timeout: 0.5 }),
      terminal("", { timeout: 20 }),
    )(request);
  };
  const { id } = await startConversation(server.call, "Look");
  await asked.promise;
  await restart();
  wait.resolve();
  await waitForEnd(id);
  const [first, second] = await results(id);
  expect(first?.observation).toMatchObject({ content: [{ text: "one\n" }], exit_code: -1 });
  expect(second?.observation).toMatchObject({ content: [{ text: "one\ntwo\n" }], exit_code: 4 });
});

test("input that was sent at a kill is told as interrupted, and is not sent again", async () => {
  script = runAll(
    terminal("cat > /tmp/typed", { timeout: 0.5 }),
    terminal("hello", { is_input: true, timeout: 30 }),
    terminal("C-d", { is_input: true }),
    terminal("cat /tmp/typed"),
  );
  const { id } = await startConversation(server.call, "Type");
  await printed(id, "hello");
  await restart();
  await waitForEnd(id);
  const stored = await events(id);
  expect(stored.filter(({ kind }) => kind === "AgentErrorEvent")).toMatchObject([
    { error: expect.stringMatching(/interrupted and its outcome is unknown/) },
  ]);
  expect((await results(id)).at(-1)?.observation.content[0].text).toBe("hello\n");
});

test("a command in a sandbox that was paused before the kill goes on with the sandbox", async () => {
  script = runAll(terminal(counting));
  const { id, sandboxId } = await startConversation(server.call, "Count");
  await printed(id, "line 3\n");
  expect((await server.call("POST", `/api/v1/sandboxes/${sandboxId}/pause`, {})).status).toBe(200);
  await until(async () => (await events(id)).some(({ kind }) => kind === "PauseEvent") || undefined);
  await restart();
  expect((await server.call("POST", `/api/conversations/${id}/run`)).status).toBe(200);
  await waitForEnd(id);
  const [first] = await results(id);
  expect(first?.observation).toMatchObject({ content: [{ text: numbers }], exit_code: 3 });
});

test("a command whose sandbox was hibernated is told as interrupted, with what it printed", async () => {
  script = runAll(terminal("echo begin; sleep 600"));
  const { id, sandboxId } = await startConversation(server.call, "Wait");
  await printed(id, "begin");
  expect((await server.call("POST", `/api/v1/sandboxes/${sandboxId}/pause`, {})).status).toBe(200);
  await until(async () => (await events(id)).some(({ kind }) => kind === "PauseEvent") || undefined);
  await server.end("SIGKILL");
  server = await startServerProcess(dataDir, { SANDPIPER_HIBERNATE_AFTER: "1" });
  const argv = ["/sys/fs/cgroup", "-type", "d", "-name", `*${sandboxId}*`];
  const groups = () => spawnSync("find", argv, { encoding: "utf8" }).stdout;
  await until(async () => groups() === "" || undefined);
  await restart();
  expect((await server.call("POST", `/api/conversations/${id}/run`)).status).toBe(200);
  await waitForEnd(id);
  expect((await events(id)).find(({ kind }) => kind === "AgentErrorEvent")?.error).toMatch(
    /interrupted and its outcome is unknown[\s\S]*begin\n$/,
  );
});

/** Process ids in the sandbox whose working folder is that of a held shell. */
const holders =
  "for p in /proc/[0-9]*; do case $(readlink $p/cwd) in */held_*) echo $(basename $p) $(readlink $p/cwd);; esac; done";

test("the deletion of a conversation ends its shell and command, also those of an earlier server", async () => {
  script = obey;
  const first = await startConversation(server.call, "run: setsid sleep 611 & echo $!; exec sleep 612");
  await printed(first.id, "1");
  await restart();
  const sharing = { sandbox_id: first.sandboxId };
  const second = await startConversation(server.call, `run: ${holders}`, sharing);
  await waitForEnd(second.id);
  const folder = `held_${first.id.replaceAll("-", "")}`;
  const [before] = await results(second.id);
  expect(before?.observation.content[0].text).toContain(folder);

  expect((await server.call("DELETE", `/api/v1/app-conversations/${first.id}`)).status).toBe(200);
  const third = await startConversation(
    server.call,
    `run: ${holders}; ls /tmp/terminal_output; ps ax`,
    sharing,
  );
  await waitForEnd(third.id);
  const [after] = await results(third.id);
  expect(after?.observation.content[0].text).not.toContain(folder);
  expect(after?.observation.content[0].text).not.toContain("sleep 612");
});

test("a secret that is added after a restart is in the shell, which keeps its folder and variables", async () => {
  script = obey;
  const { id } = await startConversation(server.call, "run: cd /tmp; export KEPT=1");
  await waitForEnd(id);
  await restart();
  const added = { secrets: { LATE: "a-secret-that-is-late" } };
  expect((await server.call("POST", `/api/conversations/${id}/secrets`, added)).status).toBe(200);
  const text = "run: echo $PWD $KEPT ${LATE:+has it}";
  const message = { role: "user", content: [{ type: "text", text }], run: true };
  await server.call("POST", `/api/conversations/${id}/events`, message);
  const shown = await until(async () => (await results(id))[1]);
  expect(shown.observation.content[0].text).toBe("/tmp 1 has it\n");
});
