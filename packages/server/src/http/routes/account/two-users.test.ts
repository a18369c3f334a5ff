import { hexId, newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  key,
  read,
  startServer,
  strangerKey,
  type TestServer,
  TestSocket,
} from "../../../../test/support/test-server.ts";

/** The user's resources by kind, each with an unknown id of the same form. */
interface Things {
  conversation: string;
  sandbox: string;
  snapshot: string;
  event: string;
  task: string;
  key: string;
  callback: string;
  secret: string;
  profile: string;
  agentProfile: string;
}

let server: TestServer;
let own: Things;
const unknown: Things = {
  conversation: newId(),
  sandbox: "sandbox-99",
  snapshot: "snap-99",
  event: newId(),
  task: newId(),
  key: newId(),
  callback: newId(),
  secret: "NOBODYS_SECRET",
  profile: "nobodys-profile",
  agentProfile: "nobodys-agent",
};
let operations: Operation[];

interface Operation {
  method: string;
  path: string;
  parameters: {
    name: string;
    in: string;
    required: boolean;
    schema: { type?: string; enum?: unknown[]; default?: unknown };
  }[];
  body: { type: string; example: unknown } | undefined;
}

beforeAll(async () => {
  server = await startServer();
  const made = async (path: string, body: object = {}) => {
    const answer = await read(server.call("POST", path, { body }));
    expect([path, answer.status < 300, answer.body]).toEqual([path, true, answer.body]);
    return answer.body;
  };
  server.sandboxes.add();
  server.sandboxes.add({ userId: "stranger" });
  server.sandboxes.add();
  const conversation = await server.addConversation();
  await server.addMessages(conversation, "The owner's words");
  const task = newId();
  const row = {
    status: "READY",
    detail: null,
    sandboxId: "sandbox-1",
    request: {},
    createdAt: 1,
    updatedAt: 1,
  } as const;
  await server.store.startTasks.create({ ...row, id: task, userId: "default", conversationId: conversation });
  await made("/api/v1/secrets", { name: "OWNERS_SECRET", value: "the owner's value" });
  await made("/api/v1/settings/profiles/owners-profile", { llm: { model: "openai/owners-model" } });
  await made("/api/agent-profiles/owners-agent", { llm_profile_ref: "owners-profile" });
  own = {
    conversation,
    sandbox: "sandbox-1",
    snapshot: (await made("/api/v1/sandboxes/sandbox-1/snapshots")).id,
    event: (await read(server.call("GET", `/api/conversations/${conversation}/events/search`))).body.items[0]
      .id,
    task,
    key: (await read(server.call("GET", "/api/keys"))).body[0].id,
    callback: (
      await made(`/api/v1/app-conversations/${conversation}/callbacks`, { kind: "LoggingCallbackProcessor" })
    ).id,
    secret: "OWNERS_SECRET",
    profile: "owners-profile",
    agentProfile: "owners-agent",
  };
  operations = await readOperations();
});
afterAll(() => server.close());

async function readOperations(): Promise<Operation[]> {
  const document = (await read(server.call("GET", "/openapi.json", { key: null }))).body;
  return Object.entries<any>(document.paths).flatMap(([path, methods]) =>
    Object.entries<any>(methods).map(([method, { parameters = [], requestBody }]): Operation => {
      const [type, media] = Object.entries<any>(requestBody?.content ?? {})[0] ?? [];
      return {
        method: method.toUpperCase(),
        path,
        parameters,
        body: type === undefined ? undefined : { type, example: media.example },
      };
    }),
  );
}

/** The value for a parameter of this name; undefined if it is not an id. */
function thingOf(path: string, name: string): keyof Things | undefined {
  const byName: Record<string, keyof Things> = {
    conversation_id: "conversation",
    conversation_id__eq: "conversation",
    sandbox_id: "sandbox",
    sandbox_id__eq: "sandbox",
    snapshot_id: "snapshot",
    event_id: "event",
    key_id: "key",
    callback_id: "callback",
    secret_id: "secret",
    secret_name: "secret",
    profile_id: "agentProfile",
  };
  if (byName[name]) return byName[name];
  if (name === "name") return path.includes("agent-profiles") ? "agentProfile" : "profile";
  if (name !== "id" && name !== "ids") return undefined;
  if (path.includes("start-tasks")) return "task";
  if (path.includes("events")) return "event";
  return path.includes("conversations") ? "conversation" : path.includes("sandboxes") ? "sandbox" : undefined;
}

/** Belongs to the user, and is available to the keys of all of the user's sandboxes. */
const ofTheUser = /^\/api\/agent-profiles\//;

/** Reporters choose the ids of their own conversations: an unknown id creates one. */
const makesUnknown = new Set(["/api/v1/webhooks/events/{conversation_id}"]);

/**
 * With a sandbox's key these use its sandbox, whatever the query names, and each call creates or
 * removes something.
 */
const changesOwn = /^\/api\/bash\//;
const changing = /"(id|command_id|timestamp|cleared_count)":("[^"]*"|\d+)/g;

const others: Record<string, string> = {
  path: "/tmp/x",
  port: "80",
  query: "x",
  repository: "a/b",
  provider: "github",
  file: "x",
};

/** Calls an operation with the ids of `things`; undefined if it has none. */
async function call({ method, path, parameters, body }: Operation, things: Things, caller: string | null) {
  let url = path;
  let named = false;
  const query: string[] = [];
  for (const { name, in: place, required } of parameters) {
    const thing = thingOf(path, name);
    named ||= thing !== undefined;
    const value = encodeURIComponent(thing ? things[thing] : (others[name] ?? "x"));
    if (place === "path") url = url.replace(`{${name}}`, value);
    if (place === "query" && (thing !== undefined || required)) query.push(`${name}=${value}`);
  }
  if (!named) return undefined;
  const answer = await server.call(method, `${url}?${query.join("&")}`, {
    key: caller,
    ...(body && {
      headers: { "content-type": body.type },
      body: typeof body.example === "string" ? body.example : (body.example ?? "x"),
    }),
  });
  const text = withoutIds(await answer.text(), things);
  return { status: answer.status, text: changesOwn.test(path) ? text.replaceAll(changing, '"$1":""') : text };
}

/** A response with all ids replaced. */
function withoutIds(text: string, things: Things): string {
  let plain = text;
  for (const id of Object.values(things)) plain = plain.replaceAll(id, "ID").replaceAll(hexId(id), "ID");
  return plain;
}

test.each([
  ["another user's key", () => strangerKey],
  ["the key of another user's sandbox", () => server.sessionKey("sandbox-2")],
  ["the key of another sandbox of the same user", () => server.sessionKey("sandbox-3")],
])("on every route, %s gets the same for the user's ids as for unknown ids", async (who, makeCaller) => {
  const caller = makeCaller();
  let compared = 0;
  for (const operation of operations) {
    if (caller === server.sessionKey("sandbox-3") && ofTheUser.test(operation.path)) continue;
    // The user's own key opens the user's sandboxes and names; a sandbox's key only those of its
    // sandbox.
    const theirs = await call(operation, own, caller);
    if (!theirs) continue;
    const { method, path } = operation;
    if (makesUnknown.has(path)) {
      expect([401, 404]).toContain(theirs.status);
      continue;
    }
    const nobodys = await call(operation, unknown, caller);
    expect({ who, method, path, ...theirs }).toEqual({ who, method, path, ...nobodys });
    expect([method, path, theirs.status]).not.toEqual([method, path, 500]);
    compared++;
  }
  expect(compared).toBeGreaterThan(60);
});

test("afterwards the user's data is unchanged", async () => {
  let different = 0;
  for (const operation of operations.filter(({ method }) => method === "GET")) {
    const [mine, theirs] = [await call(operation, own, key), await call(operation, own, strangerKey)];
    if (mine && theirs && (mine.status !== theirs.status || mine.text !== theirs.text)) different++;
  }
  expect(different).toBeGreaterThan(25);
  const status = async (path: string) => (await server.call("GET", path)).status;
  for (const path of [
    `/api/conversations/${own.conversation}`,
    `/api/v1/snapshots/${own.snapshot}`,
    `/api/v1/settings/profiles/${own.profile}`,
    `/api/agent-profiles/${own.agentProfile}`,
  ]) {
    expect([path, await status(path)]).toEqual([path, 200]);
  }
  expect((await read(server.call("GET", `/api/conversations/${own.conversation}/events/count`))).body).toBe(
    1,
  );
  expect((await read(server.call("GET", "/api/v1/sandboxes?id=sandbox-1"))).body[0].status).toBe("RUNNING");
  const listed = await Promise.all(
    ["/api/keys", "/api/v1/secrets/search"].map(async (path) => (await server.call("GET", path)).text()),
  );
  expect(listed[0]).toContain(own.key);
  expect(listed[1]).toContain(own.secret);
});

test("lists of another user contain nothing of the user", async () => {
  let lists = 0;
  const traces = [
    ...Object.values(own),
    ...Object.values(own).map(hexId),
    "owners-model",
    "the owner's",
    "The owner's",
  ];
  for (const { method, path, parameters } of operations) {
    if (method !== "GET" || path.includes("{") || path === "/login") continue;
    const query = parameters
      .filter(({ required, in: place }) => required && place === "query")
      .map(({ name }) => `${name}=${encodeURIComponent(others[name] ?? "x")}`);
    const text = await (await server.call("GET", `${path}?${query.join("&")}`, { key: strangerKey })).text();
    for (const trace of traces) expect([path, trace, text.includes(trace)]).toEqual([path, trace, false]);
    lists++;
  }
  expect(lists).toBeGreaterThan(30);
});

test("a start with another user's sandbox, snapshot or conversation fails as with unknown ones", async () => {
  const start = (path: string, body: object) => server.call("POST", path, { key: strangerKey, body });
  for (const make of [
    (things: Things) => start("/api/v1/app-conversations", { sandbox_id: things.sandbox }),
    (things: Things) => start("/api/v1/app-conversations", { parent_conversation_id: things.conversation }),
    (things: Things) => start(`/api/v1/sandboxes?snapshot_id=${things.snapshot}`, {}),
  ]) {
    const [theirs, nobodys] = await Promise.all(
      [own, unknown].map(async (things) => {
        const answer = await make(things);
        return { status: answer.status, text: withoutIds(await answer.text(), things) };
      }),
    );
    expect(theirs).toEqual(nobodys);
    expect(theirs!.status).toBe(404);
  }
});

test("another user's sockets and previews are unknown", async () => {
  const closed = async (id: string, caller: string) => {
    const socket = new TestSocket(server, `/sockets/events/${id}?session_api_key=${caller}`);
    return [await socket.closed, socket.frames];
  };
  for (const caller of [strangerKey, server.sessionKey("sandbox-2"), server.sessionKey("sandbox-3")]) {
    const theirs = await closed(own.conversation, caller);
    expect(theirs).toEqual(await closed(unknown.conversation, caller));
    expect(theirs).toEqual([{ code: 4004, reason: "Conversation not found" }, []]);
    const preview = async (id: string) => {
      const answer = await server.call("GET", `/preview/${id}/80/`, { key: caller });
      return [answer.status, await answer.text()];
    };
    expect(await preview(own.sandbox)).toEqual(await preview(unknown.sandbox));
  }
});

test("resources carry their user's name, and null for the implicit user", async () => {
  const made = async (caller: string) =>
    (await read(server.call("POST", "/api/v1/sandboxes", { key: caller, body: {} }))).body.created_by_user_id;
  expect([await made(key), await made(strangerKey)]).toEqual([null, "stranger"]);
  const hers = await server.addConversation("stranger", "sandbox-2");
  const [shown] = (
    await read(server.call("GET", `/api/v1/app-conversations?ids=${hers}`, { key: strangerKey }))
  ).body;
  expect(shown.created_by_user_id).toBe("stranger");
  const task = (await read(server.call("POST", "/api/v1/app-conversations", { key: strangerKey, body: {} })))
    .body;
  expect(task.created_by_user_id).toBe("stranger");
});
