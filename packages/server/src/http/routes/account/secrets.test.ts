import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import {
  key,
  read,
  startServer,
  strangerKey,
  type TestServer,
} from "../../../../test/support/test-server.ts";

/**
 * Secrets over HTTP: both families, provider tokens checked at a fake GitHub API, and access with a
 * sandbox's key.
 */

const value = "planted-value-0123456789";
const goodToken = "ghp_good-0123456789";
let server: TestServer;
let github: Server;
let host: string;

beforeAll(async () => {
  github = createServer((request, response) => {
    const good = (request.headers.authorization ?? "").endsWith(goodToken);
    response.writeHead(good ? 200 : 401, { "content-type": "application/json" });
    response.end(
      JSON.stringify(
        good ? { id: 1, login: "ann", avatar_url: "https://a.example/x" } : { message: "Bad credentials" },
      ),
    );
  }).listen(0, "127.0.0.1");
  await once(github, "listening");
  host = `http://127.0.0.1:${(github.address() as AddressInfo).port}`;
  server = await startServer({ outboundPrivate: ["127.0.0.0/8"] });
});
afterAll(async () => {
  await server.close();
  github.close();
});
beforeEach(async () => {
  for (const user of ["default", "stranger"]) {
    for (const { name } of await server.secrets.list(user)) await server.secrets.remove(user, name);
    await server.secrets.setProviders(user, new Map());
  }
});

const call = (method: string, path: string, body?: unknown, as = key) =>
  read(server.call(method, path, { key: as, ...(body !== undefined && { body }) }));
const add = (name: string, more: object = {}) => call("POST", "/api/v1/secrets", { name, value, ...more });
const names = async (query = "") => (await call("GET", `/api/v1/secrets/search${query}`)).body;

test("a secret is stored, listed without its value, renamed, replaced and removed", async () => {
  const about = { description: "of A", hosts: ["*.a.example"], headers: ["X-Signature"] };
  expect(await add("A_TOKEN", about)).toMatchObject({
    status: 201,
    body: { message: expect.any(String) },
  });
  const a = { name: "A_TOKEN", ...about, headers: ["x-signature"], plain: false };
  expect(await names()).toEqual({ items: [a], next_page_id: null });
  expect((await call("POST", "/api/v1/secrets", { name: "A_TOKEN", value: "other" })).status).toBe(201);
  expect(await server.secrets.value("default", "A_TOKEN")).toBe("other");
  expect((await names()).items).toEqual([a]);
  expect(
    (await call("PUT", "/api/v1/secrets/A_TOKEN", { name: "B_TOKEN", description: "now B" })).status,
  ).toBe(200);
  expect((await names()).items).toEqual([{ ...a, name: "B_TOKEN", description: "now B" }]);
  expect(await server.secrets.value("default", "B_TOKEN")).toBe("other");
  expect((await call("DELETE", "/api/v1/secrets/B_TOKEN")).status).toBe(200);
  expect(await names()).toEqual({ items: [], next_page_id: null });
});

test("taken and unknown names get the documented errors in both families", async () => {
  await add("ONE");
  await add("TWO");
  expect(await call("PUT", "/api/v1/secrets/ONE", { name: "TWO" })).toEqual({
    status: 400,
    body: { detail: "Secret TWO already exists" },
  });
  const unknown = { status: 404, body: { detail: "Secret with ID toString not found" } };
  expect(await call("PUT", "/api/v1/secrets/toString", { name: "THREE" })).toEqual(unknown);
  expect(await call("DELETE", "/api/v1/secrets/toString")).toEqual(unknown);
  expect(await call("POST", "/api/secrets", { name: "ONE", value })).toEqual({
    status: 400,
    body: { message: "Secret ONE already exists" },
  });
  expect(await call("PUT", "/api/secrets/ONE", { name: "TWO" })).toEqual({
    status: 400,
    body: { message: "Secret TWO already exists" },
  });
  for (const method of ["PUT", "DELETE"])
    expect(await call(method, "/api/secrets/NONE", { name: "THREE" })).toMatchObject({
      status: 404,
      body: { error: "Secret with ID NONE not found" },
    });
  expect(await call("GET", "/api/secrets")).toEqual({
    status: 200,
    body: { custom_secrets: ["ONE", "TWO"].map((name) => ({ name, description: null })) },
  });
  expect((await call("POST", "/api/secrets", { name: "constructor", value, description: "" })).status).toBe(
    201,
  );
  expect((await call("DELETE", "/api/secrets/constructor")).status).toBe(200);
});

test("a page continues after the last name even if that secret was deleted", async () => {
  for (const name of ["A1", "A2", "A3", "B1"]) await add(name);
  const first = await names("?limit=2");
  expect([first.items.map(({ name }: { name: string }) => name), first.next_page_id]).toEqual([
    ["A1", "A2"],
    "A2",
  ]);
  await call("DELETE", "/api/v1/secrets/A2");
  const second = await names("?limit=2&page_id=A2");
  expect([second.items.map(({ name }: { name: string }) => name), second.next_page_id]).toEqual([
    ["A3", "B1"],
    null,
  ]);
  expect((await names("?name__contains=B")).items).toHaveLength(1);
});

test("another user cannot see, change or remove secrets", async () => {
  await add("MINE");
  expect((await call("GET", "/api/v1/secrets/search", undefined, strangerKey)).body.items).toEqual([]);
  expect((await call("DELETE", "/api/v1/secrets/MINE", undefined, strangerKey)).status).toBe(404);
  expect((await call("PUT", "/api/v1/secrets/MINE", { name: "X" }, strangerKey)).status).toBe(404);
  expect((await names()).items).toHaveLength(1);
});

test("invalid names, values and hosts are rejected, and neither stored nor echoed", async () => {
  const bad = [
    "",
    "1A",
    "A B",
    "A-B",
    "Ä",
    "A\n",
    "PATH",
    "https_proxy",
    "__proto__",
    "LD_PRELOAD",
    "A".repeat(129),
    null,
    1,
    {},
  ];
  for (const name of bad) expect([name, (await add(name as string)).status]).toEqual([name, 422]);
  for (const path of ["/api/v1/secrets", "/api/secrets"])
    for (const wrong of ["", null, 5, ["x"], "x".repeat(65_537)])
      expect((await call("POST", path, { name: "A", value: wrong })).status).toBe(422);
  for (const hosts of [
    ["*"],
    ["https://a.example"],
    ["a.example/x"],
    [""],
    "a.example",
    ["a b"],
    Array(33).fill("a.example"),
  ])
    expect((await add("A", { hosts })).status).toBe(422);
  const { body } = await call("POST", "/api/v1/secrets", { name: "A-B", value: [value] });
  expect(JSON.stringify(body)).not.toContain(value);
  expect(await server.secrets.list("default")).toEqual([]);
  expect(server.logs.join("")).not.toContain(value);
});

test("an empty or masked value is refused by every route, and the stored one stays", async () => {
  await add("A");
  const session = { key: server.sessionKey((await call("POST", "/api/v1/sandboxes")).body.id) };
  const put = (value: string) =>
    read(server.call("PUT", "/api/settings/secrets", { ...session, body: { name: "A", value } }));
  for (const masked of ["", " ", "**********", "***"]) {
    expect([masked, (await put(masked)).status]).toEqual([masked, 422]);
    for (const path of ["/api/v1/secrets", "/api/secrets"])
      expect([path, masked, (await call("POST", path, { name: "B", value: masked })).status]).toEqual([
        path,
        masked,
        422,
      ]);
  }
  expect((await put("**********")).body.detail).toMatch("must not be empty or redacted");
  expect(await server.secrets.value("default", "A")).toBe(value);
  expect((await put("new-value-0123456789")).status).toBe(200);
  expect(await server.secrets.value("default", "A")).toBe("new-value-0123456789");
  await call("POST", "/api/v1/secrets/git-providers", {
    provider_tokens: { github: { token: goodToken, host } },
  });
  await call("POST", "/api/v1/secrets/git-providers", {
    provider_tokens: { github: { token: "****", host } },
  });
  expect((await server.secrets.providers("default")).get("github")?.token).toBe(goodToken);
});

test("number and size of a user's secrets are limited", async () => {
  const big = "x".repeat(65_536);
  const put = (name: string, text: string) =>
    server.secrets.put("default", { name, value: text }, { replace: true });
  await Promise.all(Array.from({ length: 16 }, (_, number) => put(`BIG${number}`, big)));
  await expect(put("MORE", "x")).rejects.toMatchObject({ code: "TooManySecrets" });
  await Promise.all(Array.from({ length: 16 }, (_, number) => put(`BIG${number}`, "x")));
  await Promise.all(Array.from({ length: 184 }, (_, number) => put(`S${number}`, "x")));
  expect((await add("ONE_MORE")).status).toBe(409);
  expect(await server.secrets.list("default")).toHaveLength(200);
});

test("tokens of git providers are checked before they are stored", async () => {
  const store = (path: string, provider_tokens: object) => call("POST", path, { provider_tokens });
  const refused = "Invalid token. Please make sure it is a valid github token.";
  expect(
    await store("/api/v1/secrets/git-providers", { github: { token: "ghp_wrong", host } }),
  ).toMatchObject({
    status: 401,
    body: { detail: refused },
  });
  expect(await store("/api/add-git-providers", { github: { token: "ghp_wrong", host } })).toMatchObject({
    status: 401,
    body: { error: refused },
  });
  expect(await server.secrets.providerHosts("default")).toEqual({});
  expect((await store("/api/v1/secrets/git-providers", { github: { token: goodToken, host } })).status).toBe(
    200,
  );
  expect((await store("/api/v1/secrets/git-providers", { githb: { token: goodToken } })).status).toBe(422);
  expect((await server.secrets.providers("default")).get("github")).toEqual({ token: goodToken, host });
  const mcp_config = {
    sse_servers: [],
    stdio_servers: [{ name: "tool", command: "npx" }],
    shttp_servers: [],
  };
  const kept = {
    provider_tokens: { github: { token: "", host }, gitlab: { token: "", host: "" } },
    mcp_config,
  };
  expect(await call("POST", "/api/add-git-providers", kept)).toEqual({
    status: 200,
    body: { message: "Git providers stored" },
  });
  expect((await server.secrets.providers("default")).get("github")?.token).toBe(goodToken);
  expect(await server.secrets.providerHosts("default")).toEqual({ github: host });
  expect((await call("GET", "/api/settings")).body.mcp_config.stdio_servers[0]).toMatchObject({
    name: "tool",
  });
  expect((await call("POST", "/api/unset-provider-tokens")).body).toEqual({
    message: "Unset Git provider tokens",
  });
  expect(await server.secrets.providerHosts("default")).toEqual({});
});

test("a secret is plain only if its owner says so, and the list shows it", async () => {
  await add("USUAL");
  await add("INSIDE", { plain: true });
  const listed = async () =>
    (await call("GET", "/api/v1/secrets/search")).body.items.map((one: { name: string; plain: boolean }) => [
      one.name,
      one.plain,
    ]);
  expect(await listed()).toEqual([
    ["INSIDE", true],
    ["USUAL", false],
  ]);
  await add("INSIDE");
  expect(await listed()).toContainEqual(["INSIDE", true]);
  expect((await call("PUT", "/api/v1/secrets/INSIDE", { name: "INSIDE", plain: false })).status).toBe(200);
  expect(await listed()).toContainEqual(["INSIDE", false]);
  expect((await call("POST", "/api/v1/secrets", { name: "X", value, plain: "yes" })).status).toBe(422);
});

test("a sandbox's key reads only the secrets of its sandbox", async () => {
  await server.secrets.setProviders("default", new Map([["github", { token: goodToken, host: null }]]));
  await add("A_TOKEN", { description: "of A" });
  await add("B_TOKEN");
  const row = server.addSandbox();
  const other = server.addSandbox();
  const url = `/api/v1/sandboxes/${row.id}/settings/secrets`;
  await server.secrets.putConversation(
    { userId: "default", conversationId: "c", sandboxId: row.id },
    { B_TOKEN: "only here" },
  );
  const listed = (await call("GET", url, undefined, row.sessionKey)).body.secrets;
  expect(listed).toEqual([
    { name: "github_token", description: "Token for github.com" },
    { name: "A_TOKEN", description: "of A" },
    { name: "B_TOKEN", description: null },
  ]);
  const text = async (name: string, as: string | null = row.sessionKey, at = url) => {
    const answer = await server.call("GET", `${at}/${name}`, { key: as });
    return [answer.status, answer.headers.get("content-type"), await answer.text()];
  };
  const plain = "text/plain; charset=utf-8";
  expect(await text("github_token")).toEqual([200, plain, goodToken]);
  expect(await text("A_TOKEN", key)).toEqual([200, plain, value]);
  expect(await text("B_TOKEN")).toEqual([200, plain, "only here"]);
  expect((await text("B_TOKEN", key, url.replace(row.id, other.id)))[2]).toBe(value);
  expect((await text("NONE"))[2]).toBe('{"detail":"Secret not found"}');
  expect((await text("A_TOKEN", other.sessionKey))[0]).toBe(403);
  expect((await text("A_TOKEN", "unknown"))[0]).toBe(401);
  expect((await text("A_TOKEN", null))[0]).toBe(401);
  expect((await text("A_TOKEN", strangerKey))[0]).toBe(404);
  await server.secrets.removeConversation("c");
  expect(await text("B_TOKEN")).toEqual([200, plain, value]);
  const reader = "sp_reader-key-0123456789";
  await server.store.apiKeys.create({ userId: "default", name: "reader", readOnly: true }, reader);
  expect((await text("A_TOKEN", reader))[0]).toBe(403);
});

test("a signed token reads one provider's token without a key, until that token is removed", async () => {
  await server.secrets.setProviders("default", new Map([["github", { token: goodToken, host: null }]]));
  const { body } = await call("POST", "/api/v1/webhooks/secrets", { provider: "github" });
  const open = async (token: string) => {
    const answer = await server.call("GET", "/api/v1/webhooks/secrets", {
      key: null,
      headers: { "x-access-token": token },
    });
    return [answer.status, await answer.text()];
  };
  expect(await open(body.access_token)).toEqual([200, goodToken]);
  expect(Date.parse(body.expires_at) - Date.now()).toBeGreaterThan(13 * 86_400_000);
  const [head, claims, signature] = body.access_token.split(".");
  const forged = Buffer.from(
    JSON.stringify({ user_id: "stranger", provider_type: "github", exp: 9_999_999_999 }),
  ).toString("base64url");
  const none = Buffer.from('{"alg":"none"}').toString("base64url");
  for (const token of ["", "x", `${head}.${forged}.${signature}`, `${none}.${claims}.`, `${head}.${claims}.`])
    expect((await open(token))[0]).toBe(401);
  await server.secrets.setProviders("default", new Map());
  expect((await open(body.access_token))[0]).toBe(401);
});

test("secrets are encrypted in the database, and a conversation's secrets are removed with it", async () => {
  const id = await server.addConversation("default", "sandbox-9");
  await server.secrets.putConversation(
    { userId: "default", conversationId: id, sandboxId: "sandbox-9" },
    { ONLY: value },
  );
  expect(await server.secrets.forSandbox("default", "sandbox-9")).toMatchObject([
    { variable: "ONLY", value },
  ]);
  expect(await server.secrets.forSandbox("stranger", "sandbox-9")).toEqual([]);
  await add("A_TOKEN");
  const files = (await readdir(join(server.config.dataDir, "store"))).map((name) =>
    readFile(join(server.config.dataDir, "store", name)),
  );
  expect((await Promise.all(files)).some((bytes) => bytes.includes("A_TOKEN") || bytes.includes(value))).toBe(
    false,
  );
  await server.store.conversations.remove(id);
  expect((await server.secrets.forSandbox("default", "sandbox-9")).map(({ name }) => name)).toEqual([
    "A_TOKEN",
  ]);
});
