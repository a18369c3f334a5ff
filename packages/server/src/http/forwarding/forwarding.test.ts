import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect } from "node:net";
import { json, text } from "node:stream/consumers";
import { PlatformError } from "@sandpiper/core/errors";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { HttpNodes, send } from "../../../test/support/http-nodes.ts";
import {
  isFullState,
  key,
  startServer,
  strangerKey,
  type TestServer,
  TestSocket,
} from "../../../test/support/test-server.ts";
import { defaultUser } from "../../users/default-user.ts";
import { passHeader } from "./pass.ts";

/** Three nodes over one store: `a` is asked, `b` owns the sandbox. */

let server: TestServer;
let nodes: HttpNodes;
let id: string;
beforeAll(async () => {
  server = await startServer({ maxRequests: 0 });
  nodes = await HttpNodes.start(server, server.store);
  server.addSandbox();
  server.addSandbox({ userId: "stranger" });
});
beforeEach(async () => {
  nodes.owners.set("sandbox-1", "b");
  id = await server.addConversation();
  nodes.users();
  nodes.asked();
});
afterEach(() => {
  nodes.owners.clear();
  nodes.beliefs.clear();
});
afterAll(async () => {
  await nodes.close();
  await server.close();
});

const asUser = { "x-session-api-key": key };
const at = (name: string, path: string) => nodes.get(name).url + path;

function call(method: string, path: string, body?: unknown, headers: Record<string, string> = asUser) {
  return send(at("a", path), {
    method,
    headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

/** Resolves when an answer has ended or broken off. */
function closeOf(answer: IncomingMessage): Promise<void> {
  answer.resume().on("error", () => {});
  return new Promise((resolve) => answer.once("close", () => resolve()));
}

test("reads and writes of a conversation are handled by the node that owns its sandbox", async () => {
  const sent = await call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text: "from the other node" }],
  });
  expect([sent.statusCode, await json(sent)]).toEqual([200, { success: true }]);
  expect(nodes.users()).toEqual(["b"]);
  const found = (await json(await call("GET", `/api/conversations/${id}/events/search`))) as {
    items: unknown[];
  };
  expect(JSON.stringify(found.items)).toContain("from the other node");
  expect(nodes.users()).toEqual(["b"]);
  const head = await call("HEAD", `/api/v1/app-conversations/${id}/skills`);
  expect([head.statusCode, head.headers["content-type"]]).toEqual([200, "application/json; charset=utf-8"]);
  expect(nodes.users()).toEqual(["b"]);
});

test("any node answers for an unknown id, for the id of another user, and for a list", async () => {
  nodes.owners.set("sandbox-2", "b");
  const foreign = await server.addConversation("stranger", "sandbox-2");
  for (const unknown of ["no-id", "00000000-0000-4000-8000-000000000000", foreign]) {
    const answer = await call("GET", `/api/conversations/${unknown}`);
    expect([answer.statusCode, nodes.get("b").used]).toEqual([404, []]);
  }
  expect((await call("GET", "/api/v1/sandboxes/sandbox-2/files?path=x")).statusCode).toBe(404);
  expect((await call("GET", "/api/v1/app-conversations/search?sandbox_id__eq=sandbox-1")).statusCode).toBe(
    200,
  );
  expect(nodes.get("b").used).toEqual([]);
});

test("a session key and the prefix of a sandbox lead to the sandbox's owner", async () => {
  const session = { "x-session-api-key": server.sessionKey("sandbox-1") };
  for (const [path, headers] of [
    ["/api/conversations/search", session],
    ["/agent/sandbox-1/api/conversations/search", asUser],
    [`/agent/sandbox-1/api/conversations/${id}`, session],
  ] as const) {
    nodes.owners.delete("sandbox-1");
    const here = await json(await call("GET", path, undefined, headers));
    nodes.owners.set("sandbox-1", "b");
    const there = await call("GET", path, undefined, headers);
    expect(await json(there)).toEqual(here);
    const by = nodes.get("b").used.splice(0);
    if (path.endsWith(id)) expect(by).not.toEqual([]);
  }
});

test("ids in bodies, headers and responses lead to the owner", async () => {
  const start = { sandbox_id: "sandbox-1", initial_message: { content: [{ type: "text", text: "go" }] } };
  const wanted: [path: string, body: unknown, headers?: Record<string, string>][] = [
    ["/api/v1/app-conversations", start],
    ["/api/v1/app-conversations/stream-start", start],
    ["/api/v1/app-conversations", { parent_conversation_id: id }],
    [
      "/v1/responses",
      { model: "x/y", input: "hi", previous_response_id: `resp_${id.replaceAll("-", "")}${"0".repeat(32)}` },
    ],
    ["/v1/chat/completions", { model: "x/y", messages: [] }, { "x-openhands-serverconversation-id": id }],
    [
      `/api/v1/conversations/${id}/pending-messages`,
      { role: "user", content: [{ type: "text", text: "x" }] },
    ],
  ];
  for (const [path, body, headers] of wanted) {
    const answer = await call("POST", path, body, { ...asUser, ...headers });
    await text(answer);
    expect([path, nodes.asked()]).toEqual([path, ["a", "b"]]);
  }
  const fresh = await call("POST", "/api/v1/app-conversations", { initial_message: start.initial_message });
  const { id: task } = (await json(fresh)) as { id: string };
  expect(nodes.asked()).toEqual(["a"]);
  const row = (await server.store.startTasks.get(
    task.replaceAll(/^(.{8})(.{4})(.{4})(.{4})/g, "$1-$2-$3-$4-"),
  ))!;
  nodes.owners.set(row.sandboxId!, "c");
  await call("POST", `/api/v1/conversations/task-${task}/pending-messages`, wanted.at(-1)![1]);
  expect(nodes.asked()).toEqual(["a", "c"]);
});

test("a start that names a sandbox streams its task through the other node", async () => {
  const answer = await call("POST", "/api/v1/app-conversations/stream-start", { sandbox_id: "sandbox-1" });
  const states = (await json(answer)) as { status: string; sandbox_id: string | null }[];
  expect(states[0]).toMatchObject({ status: "WORKING" });
  expect(states.at(-1)!.status).toMatch(/READY|ERROR/);
  expect(nodes.users()).toEqual(["b"]);
});

test("an event socket shows stored and new events, also with its key in the first frame", async () => {
  await server.addMessages(id, "before");
  const { url } = nodes.get("a");
  const withKey = new TestSocket({ url }, `/sockets/events/${id}?resend_mode=all&session_api_key=${key}`);
  const byFrame = new TestSocket({ url }, `/sockets/events/${id}?resend_mode=all`);
  await once(byFrame.socket, "open");
  byFrame.socket.send(JSON.stringify({ type: "auth", session_api_key: key }));
  for (const socket of [withKey, byFrame])
    await socket.until((frame) => JSON.stringify(frame).includes("before"));
  expect(nodes.users()).toEqual(["b"]);
  await server.addMessages(id, "after");
  for (const socket of [withKey, byFrame]) {
    await socket.until((frame) => JSON.stringify(frame).includes("after"));
    socket.socket.close();
    await socket.closed;
  }
  const wrong = new TestSocket({ url }, `/sockets/events/${id}?session_api_key=wrong`);
  expect(await wrong.refused).toBe(403);
});

test("a socket whose first frame names the sandbox by its key is served by the owner", async () => {
  const { url } = nodes.get("a");
  const socket = new TestSocket({ url }, "/sockets/bash-events");
  await once(socket.socket, "open");
  socket.send({ type: "auth", session_api_key: server.sessionKey("sandbox-1") });
  socket.send({ command: 1 });
  await socket.until(({ code }) => code === "InvalidFrame");
  expect(nodes.users()).toEqual(["b"]);
  await nodes.get("b").app.close();
  expect((await socket.closed).code).toBe(1001);
  await nodes.add("b", server, server.store);
});

test("a stream of events passes frame by frame, and ends at the owner when its client leaves", async () => {
  const answer = await call("GET", `/sockets/events/${id}?resend_mode=all`);
  expect(answer.headers["content-type"]).toMatch("text/event-stream");
  answer.setEncoding("utf8");
  let shown = "";
  answer.on("data", (piece: string) => {
    shown += piece;
  });
  await server.addMessages(id, "streamed");
  await expect.poll(() => shown).toContain("streamed");
  expect(server.conversations.live.followers(id)).toBe(1);
  answer.destroy();
  await expect.poll(() => server.conversations.live.followers(id)).toBe(0);
});

test("the revocation of a key ends the sockets and streams that another node passes on", async () => {
  const short = await server.apiKeys.create(defaultUser, "short-lived");
  const { url } = nodes.get("a");
  const socket = new TestSocket({ url }, `/sockets/events/${id}?session_api_key=${short}`);
  await socket.until(isFullState);
  const stream = await call("GET", `/sockets/events/${id}`, undefined, { "x-session-api-key": short });
  const ended = closeOf(stream);
  const listed = (await server.apiKeys.list()).find(({ name }) => name === "short-lived")!;
  await server.apiKeys.remove(listed.id);
  expect((await socket.closed).code).toBe(4001);
  await ended;
});

test("a request that the server makes to itself is forwarded too", async () => {
  const body = { host: nodes.get("a").url, method: "GET", path: `/api/conversations/${id}`, headers: asUser };
  const answer = await call("POST", "/api/cloud-proxy", body);
  expect(answer.headers["content-type"]).toMatch("application/json");
  expect([answer.statusCode, await json(answer)]).toMatchObject([200, { id }]);
  expect(nodes.users()).toEqual(["b"]);
});

test("a node that closes ends what it passes on", async () => {
  const passing = await nodes.add("d", server, server.store);
  const socket = new TestSocket({ url: passing.url }, `/sockets/events/${id}?session_api_key=${key}`);
  await socket.until(isFullState);
  const stream = await send(`${passing.url}/sockets/events/${id}`, { headers: asUser });
  const ended = closeOf(stream);
  await passing.app.close();
  await Promise.all([socket.closed, ended]);
  await expect.poll(() => server.conversations.live.followers(id)).toBe(0);
});

test("a forwarded answer has the headers of one node", async () => {
  const headers = { ...asUser, origin: "https://gui.example" };
  const answer = await call("GET", `/api/conversations/${id}`, undefined, headers);
  const names = answer.rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
  expect(new Set(names).size).toBe(names.length);
  expect(answer.headers["access-control-allow-origin"]).toBe("https://gui.example");
});

test("the owner sees the address of the client, and ignores a pass for another node", async () => {
  const path = `/api/conversations/${id}`;
  const seen: (string | undefined)[] = [];
  const note = ({ socket }: IncomingMessage, response: ServerResponse) =>
    void response.once("finish", () => seen.push(socket.remoteAddress));
  nodes.get("b").app.server.on("request", note);
  const valid = nodes.pass("b", { method: "GET", url: path });
  const other = nodes.pass("c", { method: "GET", url: path });
  for (const pass of [valid, other, "forged", `${valid}x`]) {
    const answer = await send(at("b", path), { headers: { ...asUser, [passHeader]: pass } });
    expect(answer.statusCode).toBe(200);
    await text(answer);
  }
  expect(seen).toEqual(["203.0.113.9", "127.0.0.1", "127.0.0.1", "127.0.0.1"]);
  nodes.get("b").app.server.off("request", note);
  // A pass authenticates nobody.
  expect((await send(at("b", path), { headers: { [passHeader]: valid } })).statusCode).toBe(401);
});

test("a node that does not own the sandbox refuses what is forwarded to it", async () => {
  const path = `/api/conversations/${id}`;
  const answer = await send(at("c", path), {
    headers: { ...asUser, [passHeader]: nodes.pass("c", { method: "GET", url: path }) },
  });
  expect(answer.statusCode).toBe(421);
  expect(nodes.users()).toEqual([]);
});

test("two nodes that each take the other one for the owner answer 503 after some seconds", async () => {
  nodes.beliefs.set("b sandbox-1", "a");
  const answer = await call("GET", `/api/conversations/${id}`);
  expect([answer.statusCode, answer.headers["retry-after"]]).toEqual([503, "1"]);
  expect(await json(answer)).toEqual({
    error: "The sandbox has just moved to another server; try again.",
    detail: "The sandbox has just moved to another server; try again.",
  });
  expect(nodes.users()).toEqual([]);
});

test("a request follows a sandbox that moves while it is on its way, and is carried out once", async () => {
  // `a` has not heard yet that `b` is not the owner any more.
  nodes.owners.set("sandbox-1", "c");
  nodes.beliefs.set("a sandbox-1", "b");
  setTimeout(() => nodes.beliefs.clear(), 400);
  const [read, written] = await Promise.all([
    call("GET", `/api/conversations/${id}`),
    call("POST", "/api/v1/app-conversations", { sandbox_id: "sandbox-1" }),
  ]);
  expect([read.statusCode, written.statusCode]).toEqual([200, 200]);
  expect(nodes.users()).toEqual(["c"]);
});

test("a read whose sandbox moves while it is handled is answered by the next owner", async () => {
  const { live } = server.conversations;
  for (const asked of ["a", "b"]) {
    nodes.owners.set("sandbox-1", "b");
    vi.spyOn(live, "noteRead").mockImplementationOnce(() => {
      nodes.owners.set("sandbox-1", "c");
      throw new PlatformError("SandboxHasMoved", { retryAfter: 1 });
    });
    const answer = await send(at(asked, `/api/conversations/${id}`), { headers: asUser });
    expect([answer.statusCode, ((await json(answer)) as { id: string }).id]).toEqual([200, id]);
    expect(nodes.users()).toEqual(["b", "c"]);
  }
});

test("a request waits while the owner is gone, and the next owner does the write once", async () => {
  const gone = nodes.get("b");
  await gone.app.close();
  setTimeout(() => nodes.owners.set("sandbox-1", "c"), 600);
  const answer = await call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text: "once" }],
  });
  expect(answer.statusCode).toBe(200);
  expect(nodes.users()).toEqual(["c"]);
  const { items } = await server.store.events.search(id, { limit: 100 });
  expect(items.filter((event) => event.includes('"once"'))).toHaveLength(1);
  await nodes.add("b", server, server.store, Number(new URL(gone.url).port));
});

test("two hundred requests at once through a pair of nodes are all answered", async () => {
  const answers = await Promise.all(
    Array.from({ length: 200 }, async (_, index) => {
      const answer = await call("GET", `/api/conversations/${id}?n=${index}`);
      return [answer.statusCode, ((await json(answer)) as { id: string }).id];
    }),
  );
  expect(new Set(answers.map(String))).toEqual(new Set([`200,${id}`]));
  expect(nodes.users()).toEqual(["b"]);
});

test("a client that stops in the middle of a forwarded body is cut off by the owner", async () => {
  nodes.get("b").app.server.setTimeout(300);
  const { port } = new URL(nodes.get("a").url);
  const client = connect(Number(port), "127.0.0.1");
  client.on("error", () => {});
  client.write(
    [
      `POST /api/conversations/${id}/events HTTP/1.1`,
      ...["Host: x", `X-Session-API-Key: ${key}`, "Content-Type: application/json", "Content-Length: 1000"],
      ...["", '{"half":'],
    ].join("\r\n"),
  );
  let shown = "";
  client.on("data", (chunk) => {
    shown += chunk;
  });
  await once(client, "close");
  expect(shown).toMatch(/^HTTP\/1.1 502 /);
  expect(nodes.asked()).toEqual(["a", "b"]);
  nodes.get("b").app.server.setTimeout(120_000);
});

test("half-closed connections of sockets end on both sides", async () => {
  const { port } = new URL(nodes.get("a").url);
  const client = connect({ port: Number(port), host: "127.0.0.1", allowHalfOpen: true });
  client.write(
    [
      `GET /sockets/events/${id}?session_api_key=${key} HTTP/1.1`,
      ...["Host: x", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"],
      ...["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""],
    ].join("\r\n"),
  );
  const [head] = await once(client, "data");
  expect(String(head)).toMatch(/^HTTP\/1.1 101 /);
  await expect.poll(() => server.conversations.live.followers(id)).toBe(1);
  client.end();
  client.resume();
  await once(client, "close");
  await expect.poll(() => server.conversations.live.followers(id)).toBe(0);
});

test("a stranger sees no more through another node than through the owner", async () => {
  const headers = { "x-session-api-key": strangerKey };
  expect((await call("GET", `/api/conversations/${id}`, undefined, headers)).statusCode).toBe(404);
  expect(
    (await call("GET", "/agent/sandbox-1/api/conversations/search", undefined, headers)).statusCode,
  ).toBe(404);
  expect(nodes.asked()).toEqual(["a"]);
});

test("only the node that a client is connected to counts its requests for the rate limit", async () => {
  const limited = await startServer({ maxRequests: 2 });
  const both = await HttpNodes.start(limited, limited.store, ["a", "b"]);
  limited.addSandbox();
  both.owners.set("sandbox-1", "b");
  const path = `/api/conversations/${await limited.addConversation()}`;
  const ask = async (name: string) =>
    (await send(both.get(name).url + path, { headers: asUser })).resume().statusCode;
  const askMany = async (name: string) => [
    await ask(name),
    await ask(name),
    await ask(name),
    await ask(name),
  ];
  // The rate limit allows a burst of twice its number.
  expect(await askMany("a")).toEqual([200, 200, 200, 200]);
  expect(await askMany("b")).toEqual([200, 200, 200, 200]);
  expect(await Promise.all(Array.from({ length: 12 }, () => ask("a")))).toContain(429);
  await both.close();
  await limited.close();
});
