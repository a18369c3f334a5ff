import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { expect, test } from "vitest";
import { sdkRequest, startAgentServer } from "./support/agent-server.ts";
import { type Json, removeSandboxes, until } from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";
import { startServerProcess } from "./support/server-process.ts";

test("kill -9 during hooks before a tool and before the end: no message is checked twice, and the Stop hook runs again", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-hooks-"));
  const models = await startModelServer(({ index }) =>
    index === 0 ? reply.toolCalls([terminal("touch ran")]) : finish("Done."),
  );
  let server = await startServerProcess(dataDir);
  try {
    let agent = await startAgentServer(server);
    const slowOnce = (name: string) => `[ -e ${name} ] || { touch ${name}; sleep 600; }`;
    const hook_config = {
      user_prompt_submit: [{ hooks: [{ command: "true" }] }],
      pre_tool_use: [{ matcher: "terminal", hooks: [{ command: slowOnce("before"), timeout: 600 }] }],
      stop: [{ hooks: [{ command: slowOnce("end"), timeout: 600 }] }],
    };
    const initial_message = { role: "user", content: [{ type: "text", text: "Work" }] };
    const made = await agent.call(
      "POST",
      "/api/conversations",
      sdkRequest(models.url, { hook_config, initial_message }),
    );
    const { id } = made.body;
    for (const name of ["before", "end"]) {
      await until(async () => {
        const { body } = await agent.call("POST", "/api/bash/execute_bash_command", {
          command: `ls /workspace/project/${name}`,
        });
        return body.exit_code === 0;
      });
      await server.end("SIGKILL");
      server = await startServerProcess(dataDir);
      const { body: row } = await server.call("GET", `/api/v1/sandboxes?id=${agent.sandboxId}`);
      agent = { ...agent, url: row[0].exposed_urls.find((url: Json) => url.name === "AGENT_SERVER").url };
      const base = agent.url;
      agent.call = (method, path, body) =>
        server.call(method, base.replace(server.url, "") + path, body, { "X-Session-API-Key": agent.key });
    }
    await until(
      async () => (await server.call("GET", `/api/conversations/${id}`)).body.execution_status === "finished",
    );
    const all: Json[] = (await server.call("GET", `/api/v1/conversation/${id}/events/search?limit=100`)).body
      .items;
    expect(all.map(({ kind, hook_event_type: type }) => type ?? kind)).toEqual([
      "SystemPromptEvent",
      "MessageEvent",
      "UserPromptSubmit",
      "ActionEvent",
      "PreToolUse",
      "ObservationEvent",
      "ActionEvent",
      "ObservationEvent",
      "Stop",
    ]);
  } finally {
    await removeSandboxes(server.call).catch(() => {});
    await server.end("SIGTERM");
    await models.close();
    await rm(dataDir, { recursive: true, force: true });
  }
});
