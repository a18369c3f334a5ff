import { afterAll, beforeAll, expect, test } from "vitest";
import { key, startServer, strangerKey, userMessage } from "./test-server.ts";

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.app.close());
const json = async (response: Response | Promise<Response>) => {
  const answer = await response;
  return { status: answer.status, body: (await answer.json()) as any };
};

test("health routes and documents need no key", async () => {
  for (const path of ["/alive", "/health", "/ready", "/server_info", "/openapi.json", "/docs", "/docs/json"]) {
    expect([path, (await server.call("GET", path, { key: null })).status]).toEqual([path, 200]);
  }
  expect((await json(server.call("GET", "/alive", { key: null }))).body).toEqual({ status: "ok" });
  expect((await json(server.call("GET", "/health", { key: null }))).body).toBe("OK");
  const { body } = await json(server.call("GET", "/server_info", { key: null }));
  expect(body.uptime).toBeGreaterThanOrEqual(0);
  expect(body.resources.memory.total).toBeGreaterThan(0);
});

test("smoke", async () => {
  console.log(await json(server.call("GET", "/api/settings")));
  console.log(await json(server.call("GET", "/api/settings", {key:null})));
  console.log(await json(server.call("GET", "/api/nothing", {key:null})));
  console.log(await json(server.call("GET", "/api/nothing")));
  console.log(await json(server.call("POST", "/api/settings", {body:{llm_api_key:5, language: 3}})));
  console.log(await json(server.call("POST", "/api/settings", {body:"{bad"})));
  console.log(await json(server.call("DELETE", "/api/settings")));
  console.log(await json(server.call("GET", "/api/v1/sandboxes/search?limit=101")));
  console.log(await json(server.call("GET", "/api/v1/app-conversations?ids=zz")));
  console.log(JSON.stringify((await json(server.call("GET", "/openapi.json"))).body).length);
  console.log(server.logs);
});
