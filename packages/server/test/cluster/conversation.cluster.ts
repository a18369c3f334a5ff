import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelServer } from "@sandpiper/models/test/support/model-server";
import {
  clusterImage,
  clusterKubeconfig,
  kubectl,
  loadClusterImage,
} from "@sandpiper/sandbox/test/support/cluster-image";
import { afterAll, beforeAll, expect, test } from "vitest";
import { awaitResults, sendCalls, startCallModel, textOf } from "../support/call-model.ts";
import { removeSandboxes, startConversation } from "../support/platform.ts";
import { editor, terminal } from "../support/script.ts";
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
  models = await startCallModel();
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
  const seen = await awaitResults(server.call, id, 1);
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
  await awaitResults(server.call, id, 1);
  await server.end("SIGKILL");
  server = await start();
  const send = (calls: object[]) => sendCalls(server.call, id, calls);
  await send([terminal("cat kept.txt")]);
  expect(textOf((await awaitResults(server.call, id, 2)).at(-2)!)).toContain("kept");
  expect((await server.call("POST", `/api/v1/sandboxes/${sandboxId}/pause`)).status).toBe(200);
  expect((await server.call("POST", `/api/v1/sandboxes/${sandboxId}/resume`)).status).toBe(200);
  await send([terminal("echo again; cat kept.txt")]);
  expect(textOf((await awaitResults(server.call, id, 3)).at(-2)!)).toContain("again\nkept");
});
