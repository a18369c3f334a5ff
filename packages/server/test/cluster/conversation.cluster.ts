import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import {
  clusterImage,
  clusterKubeconfig,
  kubectl,
  loadClusterImage,
} from "@sandpiper/sandbox/test/support/cluster-image";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Json, removeSandboxes, startConversation, until } from "../support/platform.ts";
import { editor, finish, terminal } from "../support/script.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

/** `sandpiper serve` with sandboxes that are pods of the test cluster. */

let server: ServerProcess;
let models: ModelServer;
let dir: string;

const start = () =>
  startServerProcess(dir, {
    SANDPIPER_DRIVER: "kubernetes",
    SANDPIPER_KUBECONFIG: clusterKubeconfig(),
    SANDPIPER_KUBERNETES_INSTALLATION: "conversation",
    SANDPIPER_KUBERNETES_RUNTIME_CLASS: "runc",
    SANDPIPER_MEMORY: "256M",
  });

beforeAll(async () => {
  dir = mkdtempSync("/tmp/sandpiper-test-");
  loadClusterImage();
  const specs = [{ id: "busybox", image: clusterImage, user: "agent", limits: { disk: "1G" } }];
  writeFileSync(join(dir, "specs.json"), JSON.stringify({ specs }));
  // The user's message holds the calls of its turn.
  models = await startModelServer(({ messages }) => {
    const calls = JSON.parse(
      messages.findLast(({ role, text }) => role === "user" && text.startsWith("["))!.text,
    );
    const turn = messages.slice(
      messages.findLastIndex(({ role, text }) => role === "user" && text.startsWith("[")),
    );
    const call = calls[turn.filter(({ role }) => role === "tool").length];
    return call ? reply.toolCalls([call]) : finish("Done.");
  });
  server = await start();
  const llm = { model: "openai/first", api_key: "sk-x", base_url: models.url };
  const stored = await server.call("POST", "/api/v1/settings", { agent_settings_diff: { llm } });
  expect(stored.status).toBe(200);
});

afterAll(async () => {
  if (server) await removeSandboxes(server.call);
  await server?.end("SIGTERM");
  await models?.close();
  rmSync(dir, { recursive: true, force: true });
});

/** The results of the last turn: observations and errors. */
async function results(id: string, turn: number): Promise<Json[]> {
  const items: Json[] = await until(async () => {
    const { body } = await server.call("GET", `/api/v1/conversation/${id}/events/search?limit=100`);
    const done = body.items.filter(({ observation }: Json) => observation?.kind === "FinishObservation");
    return done.length === turn ? body.items : undefined;
  });
  return items.filter(({ kind }) => kind === "ObservationEvent" || kind === "AgentErrorEvent");
}

const textOf = ({ observation, error }: Json) =>
  error ?? observation.content.map(({ text }: Json) => text).join("\n");

test("the agent works in a pod, whose only way out is the egress proxy", async () => {
  const request = "GET http://not-allowed.test/ HTTP/1.1\\r\\nHost: not-allowed.test\\r\\n\\r\\n";
  const { id, sandboxId } = await startConversation(
    server.call,
    JSON.stringify([
      terminal("id -u; pwd; hostname"),
      editor({ command: "create", path: "/workspace/project/a.txt", file_text: "one\n" }),
      terminal(`cat a.txt; p=\${http_proxy##*:}; { printf '${request}'; sleep 1; } | nc 127.0.0.1 \${p%/}`),
      // The API server, the machine, and another address of the pods.
      terminal(
        "for a in 10.231.0.2:6443 10.231.0.1:22 10.231.16.1:80; do nc -w 2 ${a%:*} ${a#*:}; echo $?; done",
      ),
    ]),
  );
  const seen = await results(id, 1);
  expect(textOf(seen[0]!)).toContain("1000\n/workspace/project\n");
  expect(textOf(seen[2]!)).toMatch(/^one\nHTTP\/1\.1 407 The proxy needs/);
  expect(textOf(seen[3]!).match(/^1$/gm)).toHaveLength(3);
  expect(kubectl("get", "pods", "-l", `sandpiper/installation=conversation`, "-o", "name")).toContain(
    sandboxId.toLowerCase(),
  );
});

test("a sandbox outlives its server, and wakes with its files after a pause", async () => {
  const { id, sandboxId } = await startConversation(
    server.call,
    JSON.stringify([terminal("echo kept >kept.txt")]),
  );
  await results(id, 1);
  await server.end("SIGKILL");
  server = await start();
  const message = (calls: object[]) => ({ content: [{ type: "text", text: JSON.stringify(calls) }] });
  const send = async (calls: object[]) => {
    const sent = await server.call("POST", `/api/v1/app-conversations/${id}/send-message`, {
      ...message(calls),
      run: true,
      role: "user",
    });
    expect(sent.status, JSON.stringify(sent.body)).toBeLessThan(300);
  };
  await send([terminal("cat kept.txt")]);
  expect(textOf((await results(id, 2)).at(-2)!)).toContain("kept");
  expect((await server.call("POST", `/api/v1/sandboxes/${sandboxId}/pause`)).status).toBe(200);
  expect((await server.call("POST", `/api/v1/sandboxes/${sandboxId}/resume`)).status).toBe(200);
  await send([terminal("echo again; cat kept.txt")]);
  expect(textOf((await results(id, 3)).at(-2)!)).toContain("again\nkept");
});
