import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Json, SocketClient, startTestPlatform, type TestPlatform, until } from "./support/platform.ts";
import { browser, RawHttp } from "./support/raw-http.ts";
import { finish, terminal } from "./support/script.ts";

/** The released GUI's requests from first page to reload (legacy-gui.md section 9). */

let server: TestPlatform;
let models: ModelServer;
let page: RawHttp;

beforeAll(async () => {
  const replies = [
    reply.toolCalls([terminal("echo hi > hello.txt")]),
    finish("Written."),
    reply.text("Bye."),
  ];
  models = await startModelServer(({ index }) => replies[index] ?? reply.text("The script has ended."));
  server = await startTestPlatform();
  page = new RawHttp(server.url, browser(server.key));
});

afterAll(async () => {
  page?.close();
  await server?.stop();
  await models?.close();
});

/** A request to the app server as the GUI's axios sends it; the proxy before it adds the key. */
const app = async (
  method: "GET" | "POST" | "PATCH" | "DELETE",
  path: string,
  body?: unknown,
): Promise<any> => {
  const answer = await page[method.toLowerCase() as "get" | "post"](path, body as Json);
  expect([path, answer.status]).toEqual([path, 200]);
  return answer.json;
};

test("the GUI's requests from the home page through a conversation and a reload succeed", async () => {
  expect(await app("GET", "/api/options/config")).toMatchObject({
    APP_MODE: "oss",
    FEATURE_FLAGS: { HIDE_LLM_SETTINGS: false },
  });
  const settings = {
    llm_model: "openai/scripted",
    llm_api_key: "sk-planted-secret",
    llm_base_url: models.url,
  };
  await app("POST", "/api/settings", settings);
  expect(await app("GET", "/api/settings")).toMatchObject({ llm_api_key: null, llm_api_key_set: true });
  expect(await app("GET", "/api/conversations?limit=10")).toEqual({ results: [], next_page_id: null });

  const task = await app("POST", "/api/v1/app-conversations", { parent_conversation_id: null });
  expect(task).toMatchObject({ status: "WORKING", app_conversation_id: null });
  const cid = await until(async () => {
    const [state] = await app("GET", `/api/v1/app-conversations/start-tasks?ids=${task.id}`);
    expect(state.status).not.toBe("ERROR");
    return state.status === "READY" ? state.app_conversation_id : undefined;
  });

  const shown = await app("GET", `/api/conversations/${cid}`);
  expect(shown).toMatchObject({
    conversation_id: cid,
    status: "RUNNING",
    runtime_status: "STATUS$READY",
    conversation_version: "V1",
  });
  const opened = await openConversation(shown, cid);
  expect(opened.events).toBeLessThanOrEqual(opened.socket.frames.length);
  expect(opened.changes).toEqual([]);
  expect(opened.socket.frames[0]).toMatchObject({ key: "full_state", value: { execution_status: "idle" } });

  const say = (text: string) =>
    opened.socket.socket.send(JSON.stringify({ role: "user", content: [{ type: "text", text }] }));
  say("Write hello.txt");
  await opened.socket.frame((frame) => frame.kind === "MessageEvent" && frame.llm_message.role === "user");
  await opened.socket.status("running");
  await opened.socket.frame((frame) => frame.kind === "ActionEvent" && frame.action.kind === "FinishAction");
  await opened.socket.status("finished");
  say("Thank you");
  await opened.socket.frame(
    (frame) => frame.kind === "MessageEvent" && frame.llm_message.content[0]?.text === "Bye.",
  );
  const statuses = () =>
    opened.socket.frames.filter(({ key }) => key === "execution_status").map(({ value }) => value);
  await until(() => statuses().length === 4 || undefined);
  expect(statuses()).toEqual(["running", "finished", "running", "finished"]);
  const ids = opened.socket.frames
    .filter(({ kind }) => /^(Message|Action|Observation)Event$/.test(kind))
    .map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  opened.socket.close();

  // A reload: the same again, with everything that was said.
  const again = await openConversation(await app("GET", `/api/conversations/${cid}`), cid);
  await until(() => again.socket.frames.length >= again.events || undefined);
  await until(
    () =>
      again.socket.frames.some(({ llm_message }) => llm_message?.content[0]?.text === "Bye.") || undefined,
  );
  expect(again.changes).toEqual([{ status: "ADDED", path: "hello.txt" }]);
  again.socket.close();

  const { results } = await app("GET", "/api/conversations?limit=10");
  expect(results).toMatchObject([
    {
      conversation_id: cid,
      url: shown.url,
      session_api_key: shown.session_api_key,
      title: "Write hello.txt",
    },
  ]);
  await app("PATCH", `/api/conversations/${cid}`, { title: "Hello" });
  expect((await app("GET", `/api/conversations/${cid}`)).title).toBe("Hello");
  await app("POST", `/api/v1/sandboxes/${again.sandboxId}/pause`, {});
  expect((await app("GET", `/api/conversations/${cid}`)).status).toBe("STOPPED");
  await app("POST", `/api/v1/sandboxes/${again.sandboxId}/resume`, {});
  await app("DELETE", `/api/conversations/${cid}`);
  expect(await app("GET", "/api/conversations?limit=10")).toEqual({ results: [], next_page_id: null });
});

/** The page of a conversation: the socket at the host of its URL, then the requests of its tabs. */
async function openConversation({ url, session_api_key }: Json, cid: string) {
  const { host } = new URL(url);
  const query = `resend_all=true&session_api_key=${session_api_key}`;
  const socket = new SocketClient(`ws://${host}/sockets/events/${cid}?${query}`);
  await socket.frame(({ key }) => key === "full_state");
  const events: number = await app("GET", `/api/v1/events/count?conversation_id__eq=${cid}`);

  const { runtime_id } = await app("GET", `/api/conversations/${cid}/config`);
  const [conversation] = await app("GET", `/api/v1/app-conversations?ids=${cid}`);
  expect(conversation).toMatchObject({ sandbox_id: runtime_id, conversation_url: url, session_api_key });
  const headers = { "X-Session-API-Key": session_api_key };
  const changes = await fetch(`http://${host}/api/git/changes/${encodeURIComponent("/workspace/project")}`, {
    headers,
  });
  expect(changes.status).toBe(200);
  const [sandbox] = await app("GET", `/api/v1/sandboxes?id=${runtime_id}`);
  expect(sandbox.exposed_urls.map(({ name }: Json) => name)).toContain("WORKER_1");
  return { socket, events, sandboxId: runtime_id as string, changes: (await changes.json()) as Json[] };
}
