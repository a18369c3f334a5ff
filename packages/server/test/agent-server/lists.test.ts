import { ConversationClient } from "@openhands/typescript-client/clients";
import { invalid } from "@sandpiper/core/test/support/stub";
import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import {
  caller,
  type Json,
  SocketClient,
  startTestPlatform,
  type TestPlatform,
} from "../support/platform.ts";
import { finish } from "../support/script.ts";

/** Lists, records and deletions of a sandbox's conversations, through the released client. */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;
let other: AgentServer;
let client: ConversationClient;

beforeAll(async () => {
  models = await startModelServer(({ messages }) => finish(`Done: ${messages.at(-1)!.text}`));
  platform = await startTestPlatform();
  [agent, other] = await Promise.all([startAgentServer(platform), startAgentServer(platform)]);
  client = new ConversationClient({ host: agent.url, apiKey: agent.key });
});
afterAll(async () => {
  client?.close();
  await platform?.stop();
  await models?.close();
});

const message = (text: string) => ({ role: "user", content: [{ type: "text", text }] });
const make = async (change: Json = {}, on = agent): Promise<Json> => {
  const { status, body } = await on.call("POST", "/api/conversations", sdkRequest(models.url, change));
  expect([status, body]).toEqual([201, body]);
  return body;
};
const ids = (page: Json): string[] => page.items.map(({ id }: Json) => id);
const follow = (id: string) => SocketClient.forConversation({ url: agent.url, key: agent.key }, id);
const waitForEnd = (id: string) =>
  follow(id).frame(({ key, value }) => key === "full_state" && value.execution_status === "finished");

test("a conversation shows every field of the reference", async () => {
  const parent = await make();
  const skills = [{ name: "paint", content: "Use blue.", trigger: { type: "keyword", keywords: ["paint"] } }];
  const request = sdkRequest(models.url);
  const made = await make({
    agent: { ...request.agent, agent_context: { skills, system_message_suffix: "Be brief." } },
    parent_conversation_id: parent.id,
    confirmation_policy: { kind: "ConfirmRisky", threshold: "MEDIUM", confirm_unknown: false },
    security_analyzer: { kind: "LLMSecurityAnalyzer" },
    secrets: { PLANTED: "value-of-a-planted-secret" },
    tags: { run: "7" },
    hook_config: { stop: [] },
    client_tools: [
      { name: "show_map", description: "Shows a map", parameters: { type: "object", properties: {} } },
    ],
    max_iterations: 9,
    stuck_detection: false,
  });
  const shown = await client.getConversation(made.id);
  expect(shown).toMatchObject({
    id: made.id,
    workspace: { kind: "LocalWorkspace", working_dir: "/workspace/project" },
    max_iterations: 9,
    stuck_detection: false,
    execution_status: "idle",
    confirmation_policy: { kind: "ConfirmRisky", threshold: "MEDIUM", confirm_unknown: false },
    security_analyzer: { kind: "LLMSecurityAnalyzer" },
    activated_knowledge_skills: [],
    invoked_skills: [],
    blocked_actions: {},
    blocked_messages: {},
    last_user_message_id: null,
    leaf_event_id: null,
    stats: { usage_to_metrics: {} },
    secret_registry: { secret_sources: { PLANTED: { kind: "StaticSecret", value: "**********" } } },
    agent_state: {},
    hook_config: { stop: [] },
    title: null,
    metrics: null,
    forked_from_conversation_id: null,
    forked_from_event_id: null,
    parent_conversation_id: parent.id,
    tags: { run: "7" },
    current_model_id: "openai/scripted",
    available_models: [],
    supports_runtime_model_switch: false,
    launched_agent_profile: null,
    client_tools: [{ name: "show_map" }],
    // The Python SDK imports these modules when it attaches.
    tool_module_qualnames: {
      terminal: "openhands.tools.terminal.definition",
      file_editor: "openhands.tools.file_editor.definition",
    },
    agent: { kind: "Agent", agent_context: { skills: [], system_message_suffix: "Be brief." } },
  });
  expect(
    (await agent.call("GET", `/api/conversations/${made.id}?include_skills=true`)).body.agent.agent_context
      .skills,
  ).toEqual(skills);
  const [listed] = (await agent.call("GET", "/api/conversations/search?limit=1&include_skills=1")).body.items;
  expect(listed).toMatchObject({ id: made.id, agent: { agent_context: { skills } } });
  expect((await client.getConversations([parent.id]))[0]).toMatchObject({ sub_conversation_ids: [made.id] });
  expect(JSON.stringify([made, shown, listed])).not.toContain("value-of-a-planted-secret");

  await client.sendEvent(made.id, message("paint it"), { run: true });
  await waitForEnd(made.id);
  const done = await client.getConversation(made.id);
  const { items } = (await client.searchEvents(made.id)) as Json;
  expect(done).toMatchObject({
    title: "paint it",
    execution_status: "finished",
    activated_knowledge_skills: ["paint"],
    last_user_message_id: items.find(({ kind }: Json) => kind === "MessageEvent").id,
    leaf_event_id: items.at(-1).id,
    metrics: { accumulated_token_usage: { prompt_tokens: expect.any(Number) } },
    stats: { usage_to_metrics: { agent: { model_name: "openai/scripted", max_budget_per_task: null } } },
  });
});

test("searches and counts see the conversations of the sandbox, by status, in every order, page by page", async () => {
  const [first, second] = [await make(), await make()];
  const foreign = await make({}, other);
  await client.pauseConversation(first.id);
  const paused = (await client.searchConversations(invalid({ status: "paused" }))) as Json;
  expect(ids(paused)).toEqual([first.id]);
  expect(await client.countConversations(invalid({ status: "paused" }))).toBe(1);
  const all = (await client.searchConversations()) as Json;
  expect(ids(all).slice(0, 2)).toEqual([second.id, first.id]);
  expect(ids(all)).not.toContain(foreign.id);
  expect(await client.countConversations()).toBe(all.items.length);
  const order = async (sort_order: string) =>
    ids((await client.searchConversations(invalid({ sort_order }))) as Json);
  expect(await order("CREATED_AT")).toEqual(ids(all).toReversed());
  expect((await order("UPDATED_AT_DESC"))[0]).toBe(first.id);
  expect((await order("UPDATED_AT")).at(-1)).toBe(first.id);
  const pages: string[] = [];
  for (let page_id: string | undefined; ; ) {
    const page = (await client.searchConversations({
      limit: 1,
      ...(page_id && { page_id }),
    })) as Json;
    pages.push(...ids(page));
    page_id = page.next_page_id ?? undefined;
    if (page_id === undefined) break;
  }
  expect(pages).toEqual(ids(all));
  // A user's key sees all conversations at the root, and one sandbox's below its address.
  expect((await platform.call("GET", "/api/conversations/count")).body).toBe(all.items.length + 1);
  expect(
    (
      await caller(`${platform.url}/agent/${agent.sandboxId}`, platform.key)(
        "GET",
        "/api/conversations/count",
      )
    ).body,
  ).toBe(all.items.length);
  for (const query of ["limit=0", "limit=101", "status=gone", "sort_order=TITLE", "include_skills=maybe"])
    expect([query, (await agent.call("GET", `/api/conversations/search?${query}`)).status]).toEqual([
      query,
      422,
    ]);
});

test("pages skip and repeat no conversation when others are created and deleted between requests", async () => {
  const search = async (query: string) =>
    (await other.call("GET", `/api/conversations/search?${query}`)).body as Json;
  for (const sort of ["CREATED_AT", "CREATED_AT_DESC", "UPDATED_AT", "UPDATED_AT_DESC"]) {
    for (let count = 0; count < 4; count++) await make({}, other);
    const before = ids(await search(`sort_order=${sort}`));
    const seen: string[] = [];
    let page = await search(`sort_order=${sort}&limit=2`);
    seen.push(...ids(page));
    // The conversation before the next page is deleted, too.
    for (const id of seen) expect((await other.call("DELETE", `/api/conversations/${id}`)).status).toBe(200);
    if (sort.endsWith("_DESC")) await make({}, other);
    while (page.next_page_id !== null) {
      page = await search(`sort_order=${sort}&limit=2&page_id=${page.next_page_id}`);
      seen.push(...ids(page));
    }
    expect(seen).toEqual(before);
    expect(ids(await search(`sort_order=${sort}&limit=1&page_id=${before[3]!.replaceAll("-", "")}`))).toEqual(
      [before[3]],
    );
  }
});

test("a batch has null for conversations that are not in the sandbox", async () => {
  const [own, foreign] = [await make(), await make({}, other)];
  const found = (await client.getConversations([own.id.replaceAll("-", ""), newId(), foreign.id])) as Json[];
  expect(found.map((one) => one?.id ?? null)).toEqual([own.id, null, null]);
  const { body } = await platform.call("GET", `/api/conversations?ids=${own.id}&ids=${foreign.id}`);
  expect(body.map(({ id }: Json) => id)).toEqual([own.id, foreign.id]);
  expect((await agent.call("GET", "/api/conversations")).status).toBe(422);
  expect((await agent.call("GET", "/api/conversations?ids=no-id")).status).toBe(422);
  const many = Array.from({ length: 100 }, () => `ids=${newId()}`).join("&");
  expect((await agent.call("GET", `/api/conversations?${many}`)).status).toBe(422);
});

test("title and tags can be changed, not of a missing conversation", async () => {
  const { id } = await make({ tags: { a: "1", b: "2" } });
  const socket = follow(id);
  await socket.frame(({ key }) => key === "full_state");
  expect(await client.updateConversation(id, { title: "A title" })).toEqual({ success: true });
  expect(await client.updateConversation(id, { tags: { c: "3" } })).toEqual({ success: true });
  expect(await client.getConversation(id)).toMatchObject({ title: "A title", tags: { c: "3" } });
  expect((await socket.frame(({ key }) => key === "tags")).value).toEqual({ c: "3" });
  socket.close();
  const foreign = await make({}, other);
  for (const unknown of [newId(), foreign.id, "no-id"])
    expect(await agent.call("PATCH", `/api/conversations/${unknown}`, { title: "Mine" })).toEqual({
      status: 404,
      body: { detail: "Conversation not found" },
    });
  for (const body of [
    { title: "" },
    { title: "x".repeat(201) },
    { tags: { A: "1" } },
    { tags: { a: "x".repeat(257) } },
    "[]",
    "7",
  ])
    expect([body, (await agent.call("PATCH", `/api/conversations/${id}`, body)).status]).toEqual([body, 422]);
  expect((await other.call("GET", `/api/conversations/${foreign.id}`)).body.title).toBeNull();
});

test("deleting a conversation deletes its children and ends its run; the sandbox stays", async () => {
  const parent = await make();
  const child = await make({ parent_conversation_id: parent.id });
  expect(
    await Promise.all([1, 2, 3].map(() => agent.call("DELETE", `/api/conversations/${parent.id}`))),
  ).toContainEqual({
    status: 200,
    body: { success: true },
  });
  for (const { id } of [parent, child]) {
    expect((await agent.call("GET", `/api/conversations/${id}`)).status).toBe(404);
    expect((await agent.call("DELETE", `/api/conversations/${id}`)).status).toBe(404);
  }
  const foreign = await make({}, other);
  expect((await agent.call("DELETE", `/api/conversations/${foreign.id}`)).status).toBe(404);
  // The last one of its sandbox.
  const lonely = await startAgentServer(platform);
  const last = await make({}, lonely);
  expect((await lonely.call("DELETE", `/api/conversations/${last.id}`)).status).toBe(200);
  expect((await platform.call("GET", `/api/v1/sandboxes?id=${lonely.sandboxId}`)).body[0]?.status).toBe(
    "RUNNING",
  );
  expect((await make({}, lonely)).execution_status).toBe("idle");
});

test("a session key does not delete conversations of other sandboxes", async () => {
  const parent = await make();
  const started = await platform.call("POST", "/api/v1/app-conversations", {
    parent_conversation_id: parent.id,
    sandbox_id: other.sandboxId,
  });
  expect(started.status).toBe(200);
  const [child] = (await agent.call("GET", `/api/conversations/${parent.id}`)).body.sub_conversation_ids;
  expect(child).toBeTruthy();
  const refused = await agent.call("DELETE", `/api/conversations/${parent.id}`);
  expect(refused).toEqual({
    status: 400,
    body: { detail: expect.stringMatching(/sub-conversations in other sandboxes/) },
  });
  expect((await platform.call("GET", `/api/conversations/${child}`)).status).toBe(200);
});

test("the final response is the agent's last message", async () => {
  const { id } = await make();
  expect(await client.getAgentFinalResponse(id)).toEqual({ response: "" });
  await client.sendEvent(id, message("one"), { run: true });
  await waitForEnd(id);
  expect(await client.getAgentFinalResponse(id)).toEqual({ response: "Done: one" });
  expect((await agent.call("GET", `/api/conversations/${newId()}/agent_final_response`)).status).toBe(404);
});

test("events are read by their ids, from the body of the released clients or from the query", async () => {
  const { id } = await make();
  await client.sendEvent(id, message("one"));
  const { items } = (await client.searchEvents(id)) as Json;
  const wanted = [items[1].id, newId(), "no-id", items[0].id];
  const { client: http } = invalid<{ client: { request(options: object): Promise<{ data: unknown }> } }>(
    client,
  );
  const url = `/api/conversations/${id}/events`;
  expect((await http.request({ method: "GET", url, data: wanted })).data).toEqual([
    items[1],
    null,
    null,
    items[0],
  ]);
  const query = wanted.map((one) => `ids=${one}`).join("&");
  expect((await agent.call("GET", `${url}?${query}`)).body).toEqual([items[1], null, null, items[0]]);
  expect((await agent.call("GET", url)).body).toEqual([]);
  await expect(http.request({ method: "GET", url, data: { ids: 1 } })).rejects.toMatchObject({ status: 422 });
  const foreign = await make({}, other);
  expect((await agent.call("GET", `/api/conversations/${foreign.id}/events?ids=${newId()}`)).status).toBe(
    404,
  );
});
