import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { expect, test } from "vitest";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";

/** Runs the test with a platform on its own small file system. */
async function onSmallDisk(
  work: (server: TestPlatform) => Promise<void>,
  options = "size=24m",
): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), "sandpiper-full-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", `${options},mode=711`, "sandpiper-test", dataDir]);
  let server: TestPlatform | undefined;
  try {
    server = await startTestPlatform({ dataDir });
    await work(server);
  } finally {
    await server?.stop().catch(() => {});
    execFileSync("umount", ["--lazy", dataDir]);
    rmSync(dataDir, { recursive: true, force: true });
  }
}

test("with a full disk every write gets 507, reads work, and one can still pause and delete", () =>
  onSmallDisk(async ({ call, platform, dataDir }) => {
    const { id } = (await call("POST", "/api/v1/sandboxes")).body;
    const status = async (one = id) => (await call("GET", `/api/v1/sandboxes?id=${one}`)).body[0]?.status;
    await until(async () => (await status()) === "RUNNING" || undefined);

    const { id: conversation } = await startConversation(call, "", { initial_message: null });
    const { id: other, sandboxId } = await startConversation(call, "", { initial_message: null });
    const ballast = join(dataDir, "ballast");
    expect(() => writeFileSync(ballast, Buffer.alloc(32 << 20))).toThrow(/ENOSPC/);
    const text = "x".repeat(5000);
    const message = { content: [{ type: "text", text }] };
    const id32 = conversation.replaceAll("-", "");
    const others: [string, string, unknown][] = [
      ["POST", `/api/conversations/${id32}/events`, { role: "user", ...message, run: false }],
      ["POST", `/api/v1/conversations/${id32}/pending-messages`, message],
      [
        "PATCH",
        `/api/v1/app-conversations/${id32}`,
        { title: "x".repeat(200), tags: { one: "x".repeat(1000) } },
      ],
      [
        "POST",
        `/api/v1/app-conversations/${id32}/callbacks`,
        { kind: "WebhookCallbackProcessor", url: "https://a.example/", secret: text.slice(0, 200) },
      ],
      ["POST", "/api/v1/secrets", { name: "BIG", value: text, description: "" }],
      ["POST", "/api/secrets", { name: "BIGGER", value: text }],
      ["POST", "/api/v1/settings", { agent_settings_diff: { llm: { model: text.slice(0, 200) } } }],
      ["POST", "/api/v1/settings/profiles/big", { llm: { model: text.slice(0, 200) } }],
      ["POST", "/api/keys", { name: "x".repeat(100) }],
      ["POST", "/api/v1/app-conversations", { secrets: { BIG: text } }],
      ["POST", "/api/v1/app-conversations/stream-start", { title: "Work", system_message_suffix: text }],
      ["POST", `/api/v1/sandboxes/${id}/snapshots`, undefined],
    ];
    for (const [method, path, body] of others) {
      const answer = await call(method, path, body);
      expect([path, answer.status, answer.body]).toEqual([path, 507, expect.anything()]);
    }
    const writes: [string, unknown][] = [
      ["/api/settings", { llm_model: "x".repeat(200) }],
      ["/api/v1/sandboxes", undefined],
      ["/api/v1/app-conversations", { title: "Work", system_message_suffix: "x".repeat(5000) }],
    ];
    for (const [path, body] of writes)
      expect([path, (await call("POST", path, body)).status]).toEqual([path, 507]);
    expect((await call("GET", "/health")).status).toBe(200);
    for (const [method, path] of [
      ["POST", `/api/v1/sandboxes/${id}/pause`],
      ["POST", `/api/conversations/${other.replaceAll("-", "")}/pause`],
      ["DELETE", `/api/v1/app-conversations/${other}`],
    ] as const)
      expect([path, (await call(method, path)).status]).toEqual([path, 200]);
    expect([await status(), await status(sandboxId)]).toEqual(["PAUSED", undefined]);

    rmSync(ballast);
    expect((await call("POST", `/api/v1/sandboxes/${id}/resume`)).status).toBe(200);
    for (const [method, path, body] of others) {
      const { status } = await call(method, path, body);
      expect([path, status < 300]).toEqual([path, true]);
    }
    const sandbox = await platform.sandboxes.running(id);
    expect((await runToEnd(sandbox, { argv: ["echo", "alive"] })).stdout.toString()).toBe("alive\n");
    expect((await call("POST", `/api/v1/sandboxes/${id}/pause`)).status).toBe(200);
  }));

test("a run that meets a full disk continues by itself once there is space, and asks no model before", () =>
  onSmallDisk(async ({ call, dataDir, platform }) => {
    const ballast = join(dataDir, "ballast");
    const models = await startModelServer(({ index }) => {
      if (index !== 1) return reply.text(index === 0 ? "Ready." : "Done.");
      // The answer comes when nothing can be stored any more.
      expect(() => writeFileSync(ballast, Buffer.alloc(32 << 20))).toThrow(/ENOSPC/);
      return reply.text("x".repeat(20_000));
    });
    try {
      await call("POST", "/api/settings", { llm_model: "openai/scripted", llm_base_url: models.url });
      const { id } = await startConversation(call, "Work");
      const conversation = async () => (await call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0];
      const finished = async () => (await conversation()).execution_status === "finished" || undefined;
      await until(finished);
      const message = { role: "user", content: [{ type: "text", text: "Go" }], run: true };
      await call("POST", `/api/conversations/${id}/events`, message);
      const { events } = platform.store;
      const append = events.append.bind(events);
      let probes = 0;
      events.append = (...given) => {
        if (given[1].length === 0) probes++;
        return append(...given);
      };
      await until(() => existsSync(ballast) || undefined);
      // The run could not write its end, and its log is tried again.
      await until(() => probes > 2 || undefined);
      expect(models.requests).toHaveLength(2);
      expect((await conversation()).execution_status).toBe("running");
      rmSync(ballast);
      await until(finished);
      const { body } = await call("GET", `/api/v1/conversation/${id}/events/search`);
      expect(body.items.at(-1).llm_message.content[0].text).toBe("Done.");
    } finally {
      await models.close();
    }
  }));

test("when the disk is full after a command, its result is unknown, and the command runs only once", () =>
  onSmallDisk(async ({ call, dataDir, platform }) => {
    const ballast = join(dataDir, "ballast");
    const models = await startModelServer(({ messages }) => {
      const last = messages.at(-1)!;
      if (last.role === "user")
        return reply.toolCalls([
          terminal(
            "touch /tmp/wait; echo once >> /tmp/marks; while [ -e /tmp/wait ]; do sleep 0.1; done; seq 5000",
          ),
        ]);
      if (/interrupted and its outcome is unknown/.test(last.text))
        return reply.toolCalls([terminal("cat /tmp/marks")]);
      return finish("Done.");
    });
    try {
      await call("POST", "/api/settings", { llm_model: "openai/scripted", llm_base_url: models.url });
      const { id, sandboxId } = await startConversation(call, "Work");
      const sandbox = await platform.sandboxes.running(sandboxId);
      const inside = async (command: string) =>
        (await runToEnd(sandbox, { argv: ["sh", "-c", command] })).stdout.toString().trim();
      const events = async () =>
        (await call("GET", `/api/v1/conversation/${id}/events/search`)).body.items as Json[];
      await until(async () => (await inside("cat /tmp/marks")) === "once" || undefined);
      expect(() => writeFileSync(ballast, Buffer.alloc(32 << 20))).toThrow(/ENOSPC/);
      const resting = async () =>
        (await call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0].execution_status;
      // The run that cannot write its end is over, and taken up again.
      await inside("rm /tmp/wait");
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect([await resting(), (await events()).at(-1)!.kind]).toEqual(["running", "ActionEvent"]);
      rmSync(ballast);
      await until(async () => (await resting()) === "finished" || undefined);
      const kinds = (await events()).map(({ kind, error }) =>
        kind === "AgentErrorEvent" ? error.slice(0, 31) : kind,
      );
      expect(kinds.filter((kind) => /interrupted/.test(kind))).toHaveLength(1);
      const shown = (await events())
        .filter(({ observation }) => observation?.kind === "TerminalObservation")
        .at(-1)!;
      expect(shown.observation.content[0].text).toBe("once\n");
    } finally {
      await models.close();
    }
  }));

test("a start that meets a full disk continues by itself once there is space", () =>
  onSmallDisk(async ({ call, dataDir, platform }) => {
    const ballast = join(dataDir, "ballast");
    const models = await startModelServer(() => finish("Done."));
    const { conversations } = platform.store;
    const create = conversations.create.bind(conversations);
    conversations.create = (...given) => {
      conversations.create = create;
      // The task is stored, and nothing else can be any more.
      expect(() => writeFileSync(ballast, Buffer.alloc(32 << 20))).toThrow(/ENOSPC/);
      return create(...given);
    };
    try {
      await call("POST", "/api/settings", { llm_model: "openai/scripted", llm_base_url: models.url });
      const message = { content: [{ type: "text", text: "x".repeat(20_000) }] };
      const { status, body: task } = await call("POST", "/api/v1/app-conversations", {
        initial_message: message,
      });
      expect(status).toBe(200);
      const found = async () =>
        (await call("GET", `/api/v1/app-conversations/start-tasks?ids=${task.id}`)).body[0];
      expect(["WORKING", "WAITING_FOR_SANDBOX"]).toContain((await found()).status);
      rmSync(ballast);
      const ready = await until(async () => [await found()].find((one) => one.status === "READY"));
      const [row] = (await call("GET", `/api/v1/app-conversations?ids=${ready.app_conversation_id}`)).body;
      expect(row.sandbox_id).toBe(ready.sandbox_id);
      await until(async () => {
        const { body } = await call("GET", `/api/v1/app-conversations?ids=${row.id}`);
        return body[0].execution_status === "finished" || undefined;
      });
      const { body } = await call("GET", `/api/v1/conversation/${row.id}/events/search`);
      expect(
        body.items.filter(({ source, kind }: Json) => source === "user" && kind === "MessageEvent"),
      ).toHaveLength(1);
    } finally {
      await models.close();
    }
  }));

test("a sandbox that makes 100,000 empty files is stopped while others still find room for theirs", () =>
  onSmallDisk(async ({ call, dataDir, platform }) => {
    const { id } = (await call("POST", "/api/v1/sandboxes")).body;
    const sandbox = await platform.sandboxes.running(id);
    const flood = runToEnd(sandbox, { argv: ["sh", "-c", "for i in $(seq 100000); do : >$i || exit; done"] });
    const row = async (one: string) => (await call("GET", `/api/v1/sandboxes?id=${one}`)).body[0];
    const stopped = await until(async () => [await row(id)].find(({ status }) => status === "PAUSED"));
    expect(stopped.status_detail).toMatch(/more than the 10240 files that it may have/);
    await flood.catch(() => {});
    expect(statfsSync(dataDir).ffree).toBeGreaterThan(1_000);
    const { id: other } = (await call("POST", "/api/v1/sandboxes")).body;
    await until(async () => (await row(other)).status === "RUNNING" || undefined);
  }, "size=200m,nr_inodes=40960"));
