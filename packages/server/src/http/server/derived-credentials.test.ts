import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { PreviewBench } from "../../../test/support/preview.ts";
import { isFullState, key, TestSocket } from "../../../test/support/test-server.ts";

let bench: PreviewBench;
let conversation: string;
beforeAll(async () => {
  bench = await PreviewBench.start();
  conversation = await bench.server.addConversation("default", "sbx-one");
  await bench.server.secrets.setProviders("default", new Map([["github", { token: "gh", host: null }]]));
  const app = await bench.app(8000, (_request, response) => {
    if (_request.url === "/endless") response.write("begin");
    else response.end("ok");
  });
  new WebSocketServer({ server: app });
});
afterAll(() => bench.close());

const own = { "sec-fetch-site": "same-origin" };
type Headers = Record<string, string>;

/** A caller's requests by everything that was made from one key or login. */
interface Derived {
  name: string;
  headers: Headers;
  path: string;
  host?: string;
}

/** Makes every kind of credential from the headers of a caller, and opens what stays open. */
async function derive(source: Headers) {
  const { server } = bench;
  const ask = async (path: string, method = "GET", body?: unknown, headers = source) => {
    const answer = await server.call(method, path, { key: null, headers: { ...own, ...headers }, body });
    return { answer, json: (answer.status === 204 ? null : await answer.json()) as any };
  };
  const [sandbox] = (await ask("/api/v1/sandboxes?id=sbx-one")).json;
  const session = { "x-session-api-key": sandbox.session_api_key as string };
  const [shown] = (await ask(`/api/v1/app-conversations?ids=${conversation}`)).json;
  const legacy = (await ask(`/api/conversations/${conversation}`)).json;
  const again = (await ask("/api/v1/sandboxes/sbx-one/preview?port=8000", "GET", undefined, session)).json;
  const worker = new URL(sandbox.exposed_urls[1].url);
  const link = new URL((await ask("/api/v1/sandboxes/sbx-one/preview?port=8000")).json.url);
  const page = { "sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "none" };
  const opened = await bench.call(link.pathname + link.search, { host: link.host, key: null, headers: page });
  const previewCookie = { cookie: opened.headers["set-cookie"]![0]!.split(";")[0]! };
  const byPath = new URL(again.path_url);
  const path = (await bench.call(byPath.pathname + byPath.search, { key: null, headers: page })).headers;
  const { answer } = await ask("/api/auth/workspace-session?sandbox_id=sbx-one", "POST");
  const files = { cookie: answer.headers.getSetCookie()[0]!.split(";")[0]! };
  const token = (await ask("/api/v1/webhooks/secrets", "POST", { provider: "github" })).json.access_token;
  const host = link.host;
  const derived: Derived[] = [
    { name: "itself", headers: { ...own, ...source }, path: "/api/keys" },
    { name: "session key", headers: session, path: "/api/settings" },
    {
      name: "session key, secrets",
      headers: { ...session, "x-expose-secrets": "plaintext" },
      path: "/api/settings",
    },
    {
      name: "session key of a conversation",
      headers: { "x-session-api-key": shown.session_api_key },
      path: "/api/settings",
    },
    {
      name: "session key of V0",
      headers: { "x-session-api-key": legacy.session_api_key },
      path: "/api/settings",
    },
    {
      name: "session key in the query",
      headers: {},
      path: `/sockets/events/${conversation}?session_api_key=${sandbox.session_api_key}`,
    },
    { name: "worker link", headers: {}, path: worker.pathname + worker.search, host: worker.host },
    { name: "preview link", headers: {}, path: link.pathname + link.search, host },
    { name: "preview link of a session key", headers: {}, path: byPath.pathname + byPath.search },
    { name: "preview cookie", headers: previewCookie, path: "/", host },
    { name: "preview session in a path", headers: {}, path: path.location! },
    { name: "workspace cookie", headers: files, path: `/api/conversations/${conversation}/workspace/a.txt` },
    { name: "provider access", headers: { "x-access-token": token }, path: "/api/v1/webhooks/secrets" },
  ];
  const socketPath = `/sockets/events/${conversation}`;
  const sockets = [
    new TestSocket(server, socketPath, { ...source, origin: server.url }),
    new TestSocket(server, socketPath, session),
    new TestSocket(server, socketPath),
  ];
  await once(sockets[2]!.socket, "open");
  sockets[2]!.send({ type: "auth", session_api_key: session["x-session-api-key"] });
  await Promise.all(sockets.map((socket) => socket.until(isFullState)));
  const stream = await server.call("GET", socketPath, { key: null, headers: session });
  const endless = await fetch(`http://127.0.0.1:${server.port}${path.location}endless`);
  const preview = new WebSocket(`ws://127.0.0.1:${server.port}/`, {
    headers: { host, ...previewCookie, origin: `http://${host}` },
  });
  await once(preview, "open");
  const ended = [
    ...sockets.map((socket) => socket.closed.then(({ code }) => code)),
    stream.text().then(String, () => "cut"),
    endless.text().then(String, () => "cut"),
    once(preview, "close").then(([code]) => code as number),
  ];
  return { derived, ended: Promise.all(ended) };
}

async function statuses(derived: Derived[]): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const { name, headers, path, host } of derived) {
    if (path.startsWith("/sockets")) {
      const answer = await bench.server.call("GET", path, { key: null });
      found[name] = answer.status;
      await answer.body?.cancel();
    } else found[name] = (await bench.call(path, { headers, key: null, ...(host && { host }) })).status;
  }
  return found;
}

/** Revokes keys as the command line does, in a process of its own. */
const revokeElsewhere = (id: string) => bench.server.store.apiKeys.remove(id);

const ends: Record<string, (key: { id: string; headers: Headers }) => Promise<unknown>> = {
  "a revoked key": ({ id }) => bench.server.call("DELETE", `/api/keys/${id}`),
  "a key that revokes itself": ({ id, headers }) =>
    bench.server
      .call("DELETE", `/api/keys/${id}`, { key: null, headers })
      .then(({ status }) => expect(status).toBe(200)),
  "a key that the command line revokes": ({ id }) => revokeElsewhere(id),
  "a login that logs out": ({ headers }) =>
    bench.server.call("POST", "/logout", { key: null, headers: { ...headers, ...own } }),
  "the key of a login": ({ id }) => bench.server.call("DELETE", `/api/keys/${id}`),
};

test.each(Object.keys(ends))("everything that was made from it ends with %s", async (kind) => {
  const { server } = bench;
  const made = await server.apiKeys.add("default", { name: kind, expiresAt: null, readOnly: false });
  let headers: Headers = { "x-session-api-key": made.key };
  if (kind.includes("login")) {
    const answer = await server.call("POST", "/login", { key: null, body: { key: made.key } });
    headers = { cookie: answer.headers.getSetCookie()[0]!.split(";")[0]! };
  }
  const { derived, ended } = await derive(headers);
  const before = await statuses(derived);
  expect(Object.entries(before).filter(([, status]) => status === 401)).toEqual([]);
  const start = performance.now();
  await ends[kind]!({ id: made.row.id, headers });
  expect(await ended).toEqual([4001, 4001, 4001, "cut", "cut", 1006]);
  expect(performance.now() - start).toBeLessThan(kind.includes("command line") ? 5_000 : 1_000);
  const after = await statuses(derived);
  expect(Object.entries(after).filter(([, status]) => status !== 401)).toEqual([]);
  expect((await server.call("GET", "/api/keys", { key })).status).toBe(200);
});

test("the sandbox's own secret is no key", async () => {
  const { sessionKey } = bench.server.sandboxes.rows.get("sbx-one")!;
  expect((await bench.server.call("GET", "/api/settings", { key: sessionKey })).status).toBe(401);
});
