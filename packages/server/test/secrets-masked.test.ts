import {
  type ModelServer,
  type Reply,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sdkRequest, startAgentServer } from "./support/agent-server.ts";
import {
  type Json,
  SocketClient,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { editor, finish, terminal } from "./support/script.ts";

const halves = ["sk-live_4eC39Hq", "LyjWDarjtT1zdp7dc"] as const;
const secret = halves.join("");
const encoded = Buffer.from(`user:${secret}`).toString("base64");

let server: TestPlatform;
let models: ModelServer;
let script: Script;

beforeAll(async () => {
  models = await startModelServer((request) => script(request));
  server = await startTestPlatform();
  const settings = {
    llm_model: "openai/scripted",
    llm_api_key: "sk-planted-model-key",
    llm_base_url: models.url,
  };
  await server.call("POST", "/api/settings", settings);
  await server.call("POST", "/api/v1/secrets", { name: "PAY_KEY", value: secret });
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
});

function useReplies(replies: Reply[]): void {
  const first = models.requests.length;
  script = ({ index }) => replies[index - first] ?? reply.text("The script has ended.");
}

const events = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).body.items;

const waitForEnd = (id: string) =>
  until(async () => {
    const { body } = await server.call("GET", `/api/v1/app-conversations?ids=${id}`);
    return body[0].execution_status === "finished" || undefined;
  });

const observed = (all: Json[]): string[] =>
  all
    .filter(({ observation }) => observation)
    .map(({ observation }) => observation.content.map(({ text }: Json) => text).join(""));

/** Commands that print the secret without holding it. */
const printed = `printf '%s%s' ${halves[0]} ${halves[1]}`;

test("a secret's value reaches neither the model nor a reader, however a command writes it", async () => {
  useReplies([
    reply.toolCalls([terminal(printed)]),
    reply.toolCalls([terminal(`printf 'user:%s%s' ${halves[0]} ${halves[1]} | base64`)]),
    reply.toolCalls([terminal(`(${printed}) | fold -w 10; (${printed}) | od -An -tx1 | tr -d ' '`)]),
    reply.toolCalls([terminal(`(${printed}) > key.txt; echo sk-planted-model"-key"`)]),
    reply.toolCalls([editor({ command: "view", path: "/workspace/project/key.txt" })]),
    reply.toolCalls([
      editor({
        command: "str_replace",
        path: "/workspace/project/key.txt",
        old_str: "sk-live",
        new_str: "x\nsk-live",
      }),
    ]),
    reply.toolCalls([terminal(`(${printed}) > "$(${printed})"; ls`)]),
    finish(`It is ${secret}.`),
  ]);
  const first = models.requests.length;
  const { id } = await startConversation(server.call, `Use ${secret}, or ${encodeURIComponent(secret)}.`);
  const socket = SocketClient.forConversation(server, id, "&resend_mode=all");
  await waitForEnd(id);
  const all = await events(id);
  const sent = models.requests.slice(first).map(({ body }) => JSON.stringify(body));
  // The model writes both halves itself, in its calls.
  for (const text of [
    ...sent,
    ...all.filter(({ source }) => source !== "user").map((event) => JSON.stringify(event)),
  ]) {
    expect(text).not.toContain(secret);
    expect(text).not.toContain(encoded.slice(8, 40));
    expect(text).not.toContain(Buffer.from(secret).toString("hex"));
  }
  expect(sent[0]).toContain("Use <secret-hidden>, or <secret-hidden>.");
  expect(sent[0]).toContain("$PAY_KEY");
  const texts = observed(all);
  expect(texts[0]).toBe("<secret-hidden>");
  expect(texts[1]).toMatch(/^\S{0,8}<secret-hidden>\S{0,4}\n?$/);
  expect(texts[2]).toBe("<secret-hidden>\n");
  expect(texts[3]).toBe("<secret-hidden>\n");
  expect(texts[4]).toContain("<secret-hidden>");
  const edit = all.find(({ observation }) => observation?.command === "str_replace");
  expect(edit?.observation).toMatchObject({
    old_content: "<secret-hidden>",
    new_content: "x\n<secret-hidden>",
  });
  expect(texts[6]).toContain("<secret-hidden>");
  expect(all.at(-1)?.observation.content[0].text).toBe("It is <secret-hidden>.");
  expect(JSON.stringify(socket.frames.filter(({ source }) => source !== "user"))).not.toContain(secret);
});

test("a secret split over two polls of a command or over deltas of an answer is masked", async () => {
  useReplies([
    reply.toolCalls([
      terminal(`printf 'first ${halves[0]}'; sleep 1; printf '${halves[1]} last\\n'`, { timeout: 0.5 }),
    ]),
    reply.toolCalls([terminal("")]),
    reply.text(`The value is ${secret}, I think.`, { deltaSize: 5, paceMs: 30 }),
  ]);
  const first = models.requests.length;
  const { id } = await startConversation(server.call, "Go");
  const socket = SocketClient.forConversation(server, id, "&resend_mode=all");
  await waitForEnd(id);
  await socket.status("finished");
  const texts = observed(await events(id));
  expect(texts[0]).toBe("first <secret-hidden>");
  expect(texts[1]).toBe("<secret-hidden> last\n");
  expect((await events(id)).at(-1)?.llm_message.content[0].text).toBe(
    "The value is <secret-hidden>, I think.",
  );
  const deltas = socket.frames
    .filter(({ kind }) => kind === "StreamingDeltaEvent")
    .map(({ content }) => content ?? "");
  expect(deltas.length).toBeGreaterThan(2);
  expect(deltas.join("")).toBe("The value is <secret-hidden>, I think.");
  expect(JSON.stringify(models.requests.at(-1)?.body)).not.toContain(secret);
  expect(models.requests.length).toBe(first + 3);
});

test("secrets of a conversation are described in its prompt and masked in its outputs and its sandbox's commands", async () => {
  const agent = await startAgentServer(server);
  const value = "conversation-4242-value";
  useReplies([
    reply.toolCalls([terminal("printf 'conversation-%s sk-own-%s' 4242-value model-key")]),
    finish("Done."),
  ]);
  const first = models.requests.length;
  const secrets = { DB_PASSWORD: { kind: "StaticSecret", value, description: "Of the test\ndatabase" } };
  const initial_message = { role: "user", content: [{ type: "text", text: "Go" }], run: true };
  const { status, body } = await agent.call(
    "POST",
    "/api/conversations",
    sdkRequest(models.url, { secrets, initial_message }),
  );
  expect([200, 201]).toContain(status);
  const path = `/api/conversations/${body.id}`;
  await until(async () => (await agent.call("GET", path)).body.execution_status === "finished" || undefined);
  const { items } = (await agent.call("GET", `${path}/events/search`)).body;
  expect(observed(items)[0]).toBe("<secret-hidden> <secret-hidden>");
  expect(models.requests[first]?.system).toContain("$DB_PASSWORD: Of the test database");
  expect(JSON.stringify(models.requests.slice(first).map(({ body }) => body))).not.toContain(value);

  const command =
    "printf 'a conversation-42'; sleep 0.4; printf '42-value b'; printf conversation-4242 >&2; sleep 0.3; echo -value >&2";
  const { body: started } = await agent.call("POST", "/api/bash/start_bash_command", { command });
  const outputs = await until(async () => {
    const query = `command_id__eq=${started.id}&sort_order=TIMESTAMP&limit=100&kind__eq=BashOutput`;
    const found: Json[] = (await agent.call("GET", `/api/bash/bash_events/search?${query}`)).body.items;
    return found.some(({ exit_code }) => exit_code !== null) ? found : undefined;
  });
  expect(outputs.length).toBeGreaterThan(1);
  const text = (name: string) => outputs.map((output) => output[name] ?? "").join("");
  expect([text("stdout"), text("stderr")]).toEqual(["a <secret-hidden> b", "<secret-hidden>\n"]);
});

test("secret values in a project's files appear neither in the prompt nor in added context", async () => {
  const skill = (head: string) => `(printf -- '---\\n${head}\\n---\\n'; ${printed})`;
  const write = [
    "mkdir -p .openhands/skills",
    `(${printed}) > AGENTS.md`,
    `${skill("triggers: [zebra]")} > .openhands/skills/animal.md`,
    `${skill('paths: ["*.txt"]')} > .openhands/skills/rule.md`,
  ];
  useReplies([reply.toolCalls([terminal(write.join(" && "))]), finish("Done.")]);
  const { id: before, sandboxId } = await startConversation(server.call, "Prepare");
  await waitForEnd(before);
  useReplies([
    reply.toolCalls([editor({ command: "create", path: "/workspace/project/a.txt", file_text: "a" })]),
    finish("Done."),
  ]);
  const { id } = await startConversation(server.call, `The zebra of ${secret}`, { sandbox_id: sandboxId });
  await waitForEnd(id);
  const [prompt, message, , result] = await events(id);
  expect(prompt?.dynamic_context.text).toContain("[BEGIN context from agents]\n<secret-hidden>");
  expect(JSON.stringify(message?.extended_content)).toContain("<secret-hidden>");
  expect(result?.extended_content[0].text).toMatch(/^<PATH_RULE[\s\S]*<secret-hidden>/);
  for (const event of [prompt, message?.extended_content, result])
    expect(JSON.stringify(event)).not.toContain(secret);
  expect((await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0].title).toBe(
    "The zebra of <secret-hidden>",
  );
});

test("an unknown analyzer is refused, and the error lists the known ones", async () => {
  const agent = await startAgentServer(server);
  const { body } = await agent.call("POST", "/api/conversations", sdkRequest(models.url));
  const set = (kind: string) =>
    agent.call("POST", `/api/conversations/${body.id}/security_analyzer`, { security_analyzer: { kind } });
  expect((await set("GraySwanAnalyzer")).body).toMatchObject({
    detail: expect.stringMatching(/choose LLMSecurityAnalyzer/),
  });
  expect((await set("PatternSecurityAnalyzer")).status).toBe(200);
});
