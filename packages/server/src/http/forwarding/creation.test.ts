import { json, text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { HttpNodes, send } from "../../../test/support/http-nodes.ts";
import { key, startServer, type TestServer } from "../../../test/support/test-server.ts";
import { newSandbox } from "../../nodes/api.ts";

/** Three nodes over one store: `a` is asked to create sandboxes. */

let server: TestServer;
let nodes: HttpNodes;
beforeAll(async () => {
  server = await startServer({ maxRequests: 0 });
  nodes = await HttpNodes.start(server, server.store);
});
beforeEach(() => {
  nodes.users();
  nodes.asked();
});
afterAll(async () => {
  await nodes.close();
  await server.close();
});

function call(method: string, path: string, body: unknown = {}) {
  return send(nodes.get("a").url + path, {
    method,
    headers: { "x-session-api-key": key, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

test("a request that creates a sandbox is handled by the node that shall create it", async () => {
  nodes.owners.set(newSandbox, "b");
  const creations: [path: string, body: unknown][] = [
    ["/api/v1/app-conversations", {}],
    ["/api/v1/app-conversations/stream-start", {}],
    ["/api/conversations", {}],
    ["/api/v1/sandboxes", { network: "none" }],
    ["/v1/chat/completions", { model: "x/y", messages: [] }],
    ["/v1/responses", { model: "x/y", input: "hi" }],
  ];
  for (const [path, body] of creations) {
    await text(await call("POST", path, body));
    expect([path, nodes.asked()]).toEqual([path, ["a", "b"]]);
  }
  await text(await call("POST", "/api/v1/sandboxes?snapshot_id=x"));
  expect(nodes.asked()).toEqual(["a"]);
});

test("the node that is asked creates the sandbox when the other node is away", async () => {
  nodes.owners.set(newSandbox, "c");
  const gone = nodes.get("c");
  await gone.app.close();
  for (const path of ["/api/v1/app-conversations", "/api/v1/sandboxes"]) {
    const answer = await call("POST", path, {});
    expect([path, answer.statusCode, await json(answer)]).toMatchObject([
      path,
      200,
      { id: expect.any(String) },
    ]);
    expect(nodes.users()).toEqual(["a"]);
  }
  await nodes.add("c", server, server.store, Number(new URL(gone.url).port));
});
