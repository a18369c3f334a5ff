import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { getInstallationGroup, listGroupMembers } from "@sandpiper/sandbox/drivers/oci/cgroup/cgroups";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, startTestPlatform, type TestPlatform, until } from "../support/platform.ts";
import { finish, terminal } from "../support/script.ts";
import { TerminalClient } from "../support/terminal-client.ts";

/** A sandbox is killed during client calls: each call is answered, and files survive. */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;

beforeAll(async () => {
  models = await startModelServer(({ messages }) => {
    const last = messages.at(-1)!;
    const command = last.role === "user" ? /^run: (.*)/m.exec(last.text)?.[1] : undefined;
    return command === undefined ? finish("Done.") : reply.toolCalls([terminal(command)]);
  });
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
});

/** With the first process all others end. */
function killAll(): void {
  const group = getInstallationGroup(join(platform.dataDir, "sandboxes"));
  const first = listGroupMembers(`${group}/${agent.sandboxId}`).find(isFirst)!;
  process.kill(first, "SIGKILL");
}
/** Whether a process is the first one of its sandbox. */
function isFirst(id: number): boolean {
  return /^NSpid:.*\t1$/m.test(readFileSync(`/proc/${id}/status`, "utf8"));
}
const execute = async (command: string): Promise<Json> =>
  (await agent.call("POST", "/api/bash/execute_bash_command", { command })).body;
/** A command that comes while the last processes end may still fail. */
const recovered = () => until(async () => (await execute("echo works")).stdout === "works\n" || undefined);
const url = (path: string) => `${agent.url}/api/file/${path}`;
const headers = () => ({ "x-session-api-key": agent.key });

test("commands, a terminal, a download and an upload end with the sandbox's processes, and the next use finds the files", async () => {
  await execute("mkdir -p /tmp/w && cd /tmp/w && echo kept >note && head -c 300000000 /dev/zero >big");
  const waiting = execute("echo begun; sleep 600");
  const shell = new TerminalClient(agent, "/sockets/terminal");
  shell.type("echo ready$((1))\r");
  await shell.shows(/ready1/);
  const download = await fetch(url("download?path=/tmp/w/big"), { headers: headers() });
  const reader = download.body!.getReader();
  await reader.read();
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const boundary = "part";
  const upload = fetch(url("upload?path=/tmp/w/note"), {
    method: "POST",
    headers: { ...headers(), "content-type": `multipart/form-data; boundary=${boundary}` },
    body: readable,
    duplex: "half",
  } as RequestInit);
  const writer = writable.getWriter();
  const head = `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="note"\r\n\r\n`;
  await writer.write(Buffer.from(`${head}half of it`));
  await until(
    async () =>
      (await execute("ls -a /tmp/w; pgrep -fc '^sleep 600'")).stdout.includes(".write-") || undefined,
  );

  killAll();
  expect(await waiting).toMatchObject({
    stdout: expect.stringContaining("begun"),
    exit_code: expect.any(Number),
  });
  expect((await waiting).exit_code).not.toBe(0);
  expect((await shell.closed).code).toBeGreaterThan(0);
  const read = (async () => {
    while (!(await reader.read()).done);
  })();
  await expect(read).rejects.toThrow();
  await writer.write(Buffer.from(`\r\n--${boundary}--\r\n`)).catch(() => {});
  await writer.close().catch(() => {});
  expect((await upload).status).toBe(503);
  await recovered();
  expect((await execute("cat /tmp/w/note; stat -c %s /tmp/w/big")).stdout).toBe("kept\n300000000\n");
  expect((await execute("pgrep -fc '^sleep 600'")).stdout).toBe("0\n");
});

test("a move during which the sandbox is killed succeeds or changes nothing, and can be repeated", async () => {
  const { id } = (
    await agent.call("POST", "/api/conversations", sdkRequest(models.url, { autotitle: false }))
  ).body;
  const base = `/api/conversations/${id}`;
  const say = async (text: string) => {
    await agent.call("POST", `${base}/events`, {
      role: "user",
      content: [{ type: "text", text }],
      run: true,
    });
    await until(
      async () => (await agent.call("GET", base)).body.execution_status === "finished" || undefined,
    );
    return (await agent.call("GET", `${base}/events/search?sort_order=TIMESTAMP_DESC&limit=1`)).body.items[0]
      .id as string;
  };
  const first = await say(
    "run: cd /workspace/project && echo one >state && head -c 400000000 /dev/urandom >big",
  );
  await platform.call("POST", `/api/v1/sandboxes/${agent.sandboxId}/snapshots`);
  const second = await say("run: cd /workspace/project && echo two >state");
  await execute("true");
  const move = agent.call("POST", `${base}/navigate`, { event_id: first });
  await new Promise((resolve) => setTimeout(resolve, 150));
  killAll();
  const { status } = await move;
  await recovered();
  const leaf = (await agent.call("GET", base)).body.leaf_event_id;
  const state = (await execute("cat /workspace/project/state")).stdout;
  expect([
    [503, second, "two\n"],
    [200, first, "one\n"],
  ]).toContainEqual([status, leaf, state]);
  expect((await agent.call("POST", `${base}/navigate`, { event_id: first })).status).toBe(200);
  expect(await execute("cat /workspace/project/state; ls -A /workspace")).toMatchObject({
    stdout: "one\nproject\n",
  });
  // Nothing is left of the sandboxes that held the snapshot's files.
  expect((await platform.call("GET", "/api/v1/sandboxes/search")).body.items).toHaveLength(1);
});
