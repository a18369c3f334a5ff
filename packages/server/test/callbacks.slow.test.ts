import { createHmac } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TestEndpoint } from "./support/callback-receiver.ts";
import { removeSandboxes, startTestPlatform, until } from "./support/platform.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";

const secret = "the secret of the receiver";

let dataDir: string;
let endpoint: TestEndpoint;
let server: ServerProcess | undefined;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-test-"));
  endpoint = await new TestEndpoint().listen();
});

afterEach(async () => {
  if (server) {
    await removeSandboxes(server.call);
    await server.end("SIGTERM");
    server = undefined;
  }
  await endpoint.close();
  await rm(dataDir, { recursive: true, force: true });
});

const start = (env: Record<string, string> = {}) =>
  startServerProcess(dataDir, { SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8", ...env });

async function conversation({ call }: Pick<ServerProcess, "call">, processors: unknown[]): Promise<string> {
  const { body } = await call("POST", "/api/v1/app-conversations", { processors });
  const id = await until(async () => {
    const task = (await call("GET", `/api/v1/app-conversations/start-tasks?ids=${body.id}`)).body[0];
    if (task.status === "ERROR") throw new Error(task.detail);
    return task.app_conversation_id ?? undefined;
  });
  expect(
    JSON.stringify((await call("GET", `/api/v1/app-conversations/start-tasks?ids=${body.id}`)).body),
  ).not.toContain(secret);
  return id;
}

const say = ({ call }: Pick<ServerProcess, "call">, id: string, text: string) =>
  call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text }],
    run: false,
  });

test("kill -9 between deliveries loses no event: each arrives at least once, in order, and signed", async () => {
  const env = { SANDPIPER_WEBHOOK_URL: endpoint.url, SANDPIPER_WEBHOOK_SECRET: "operators-secret-0123" };
  const own = await new TestEndpoint().listen();
  server = await start(env);
  const id = await conversation(server, [
    { kind: "WebhookCallbackProcessor", url: own.url, secret, kinds: ["MessageEvent"] },
  ]);
  const said: string[] = [];
  // In the second round endpoints do not answer, so the kill comes before the delivery's result.
  for (const answer of [{ status: 200 }, "hang"] as const) {
    own.answer = () => answer;
    endpoint.answer = () => answer;
    const before = own.received.length;
    for (let count = 0; count < 3; count++) {
      said.push(`message ${said.length}`);
      await say(server, id, said.at(-1)!);
    }
    if (answer === "hang") await own.requests(before + 1);
    await server.end("SIGKILL");
    if (answer === "hang") {
      own.answer = () => ({ status: 200 });
      endpoint.answer = own.answer;
    }
    server = await start(env);
  }
  for (const each of [own, endpoint]) {
    await until(() => said.every((text) => each.texts().includes(text)) || undefined);
    const firsts = each.texts().filter((text, index, all) => all.indexOf(text) === index);
    expect(firsts).toEqual(said);
  }
  for (const { headers, body } of own.received) {
    const signed = createHmac("sha256", secret)
      .update(`${headers["x-sandpiper-timestamp"]}.${body}`)
      .digest("hex");
    expect(headers["x-sandpiper-signature"]).toBe(signed);
  }
  const shown = (await server.call("GET", `/api/v1/app-conversations/${id}/callbacks`)).body;
  expect(shown.map((each: { server_wide: boolean }) => each.server_wide)).toEqual([true, false]);
  await own.close();
});

test("the conversation's user adds, reads, retries and removes callbacks", async () => {
  const platform = await startTestPlatform({ dataDir, outboundPrivate: ["127.0.0.0/8"] });
  try {
    const { call } = platform;
    const id = await conversation({ call }, []);
    const base = `/api/v1/app-conversations/${id}/callbacks`;
    endpoint.answer = () => ({ status: 503, headers: { "retry-after": "600" } });
    const added = await call("POST", base, { kind: "WebhookCallbackProcessor", url: endpoint.url, secret });
    expect(added).toMatchObject({
      status: 201,
      body: { url: endpoint.url, secret_set: true, status: "ACTIVE" },
    });
    await say({ call }, id, "hello");
    const failing = await until(async () =>
      (await call("GET", base)).body.find((each: { attempts: number }) => each.attempts),
    );
    expect(failing).toMatchObject({ last_error: "The address answered 503.", pending: true });
    expect(JSON.stringify(failing)).not.toContain(secret);
    endpoint.answer = () => ({ status: 200 });
    expect((await call("POST", `${base}/${added.body.id}/retry`, {})).status).toBe(200);
    await until(async () => ((await call("GET", base)).body[0].pending === false ? true : undefined));
    expect(endpoint.texts()).toContain("hello");
    expect(
      (await call("POST", base, { kind: "WebhookCallbackProcessor", url: "file:///etc/passwd" })).status,
    ).toBe(422);
    expect((await call("POST", base, { kind: "SlackV1CallbackProcessor" })).status).toBe(422);
    for (const path of [`${base}/nonsense`, `${base}/${id}`])
      expect((await call("DELETE", path)).status).toBe(404);
    expect((await call("DELETE", `${base}/${added.body.id}`)).status).toBe(200);
    expect((await call("GET", base)).body).toEqual([]);
  } finally {
    await platform.stop();
  }
});

test("by default no callback reaches the server's own machine", async () => {
  const platform = await startTestPlatform({ dataDir });
  try {
    const kind = "WebhookCallbackProcessor";
    const url = endpoint.url.replace("127.0.0.1", "localhost");
    const id = await conversation(platform, [{ kind, url }]);
    await say(platform, id, "hello");
    const base = `/api/v1/app-conversations/${id}/callbacks`;
    expect((await platform.call("POST", base, { kind, url: endpoint.url })).status).toBe(422);
    const { last_error } = await until(async () =>
      (await platform.call("GET", base)).body.find((each: { attempts: number }) => each.attempts),
    );
    expect(last_error).toMatch(/localhost is a private/);
    expect(endpoint.received).toEqual([]);
  } finally {
    await platform.stop();
  }
});
