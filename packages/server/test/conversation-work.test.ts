import {
  type ModelServer,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";

let server: TestPlatform;
let models: ModelServer;
let script: Script;

beforeAll(async () => {
  models = await startModelServer((request) => script(request));
  server = await startTestPlatform();
  const settings = {
    llm_model: "openai/scripted",
    llm_api_key: "sk-planted-secret",
    llm_base_url: models.url,
  };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
});

const conversation = async (id: string): Promise<Json> =>
  (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0];
const waitForEnd = (id: string) =>
  until(async () => (await conversation(id)).execution_status === "finished" || undefined);

/** A conversation whose agent has run these commands in its project. */
async function worked(...commands: string[]): Promise<Json> {
  const first = models.requests.length;
  const replies = [...commands.map((command) => reply.toolCalls([terminal(command)])), finish("Done.")];
  script = ({ index }) => replies[index - first] ?? reply.text("The script has ended.");
  const { id } = await startConversation(server.call, "Work");
  await waitForEnd(id);
  return conversation(id);
}

test("the agent's work is read from its sandbox: changes, differences, files, skills and hooks", async () => {
  const hooks = {
    hooks: {
      PreToolUse: [{ matcher: "terminal", hooks: [{ command: "echo hi", timeout: 5, async: true }, 7] }],
      Nonsense: [{}],
    },
  };
  const shown = await worked(
    "git config user.email a@b.c; git config user.name A; echo one > a.txt; git add . && git commit -qm first; echo two > a.txt; echo plan > PLAN.md",
    `mkdir -p .openhands/skills/greet && echo '${JSON.stringify(hooks)}' > .openhands/hooks.json && printf -- '---\\nname: greet\\ndescription: d\\ntriggers: [hello]\\n---\\nSay hello.\\n' > .openhands/skills/greet/SKILL.md`,
  );
  const base = `/api/v1/app-conversations/${shown.id}`;
  const get = async (path: string, headers: Record<string, string> = {}) => {
    const { status, body } = await server.call("GET", path, undefined, headers);
    return status === 200 ? body : status;
  };

  const changes = [
    ...[".openhands/hooks.json", ".openhands/skills/greet/SKILL.md", "PLAN.md"].map((path) => ({
      status: "ADDED",
      path,
    })),
    { status: "UPDATED", path: "a.txt" },
  ];
  expect(await get(`${base}/git/changes?path=.`)).toEqual(changes);
  expect(await get(`${base}/git/changes?path=/workspace/project&ref=HEAD`)).toEqual(changes);
  expect(await get(`${base}/git/changes?path=.&ref=none`)).toBe(400);
  expect(await get(`${base}/git/diff?path=a.txt&ref=HEAD`)).toEqual({ original: "one\n", modified: "two\n" });
  expect(await get(`${base}/git/diff?path=/etc/passwd`)).toBe(400);
  expect(await get(`${base}/file`)).toBe("plan\n");
  expect(await get(`${base}/file?file_path=a.txt`)).toBe("two\n");
  expect(await get(`${base}/file?file_path=/etc`)).toBe("");
  const files = [".openhands/hooks.json", ".openhands/skills/greet/SKILL.md", "PLAN.md", "a.txt"];
  expect(await get(`${base}/files`)).toEqual(files);
  expect(await get(`${base}/files?path=/workspace`)).toEqual(files.map((name) => `project/${name}`));
  expect(await get(`${base}/files?path=a.txt`)).toBe(422);
  expect(await get(`${base}/files?path=none`)).toBe(404);
  expect(await get(`${base}/skills`)).toMatchObject({
    skills: [{ name: "greet", content: expect.stringContaining("Say hello.") }],
  });
  expect(await get(`${base}/hooks`)).toEqual({
    hooks: [
      {
        event_type: "pre_tool_use",
        matchers: [
          { matcher: "terminal", hooks: [{ type: "command", command: "echo hi", timeout: 5, async: true }] },
        ],
      },
    ],
  });

  // As the GUI asks: one encoded segment, and the session key alone or with a proxy's header.
  const session = { "X-Session-API-Key": shown.session_api_key };
  expect(await get("/api/git/changes/%2Fworkspace%2Fproject", session)).toEqual(changes);
  expect(
    await get("/api/git/changes?path=/workspace/project", {
      ...session,
      authorization: `Bearer ${server.key}`,
    }),
  ).toEqual(changes);
  expect(await get("/api/git/diff/%2Fworkspace%2Fproject%2Fa.txt", session)).toEqual({
    original: "one\n",
    modified: "two\n",
  });

  const form = new FormData();
  form.append("file", new Blob(["attached"]), "note ü.txt");
  const path = encodeURIComponent("/workspace/note ü.txt");
  const uploaded = await fetch(`${server.url}/api/file/upload/${path}`, {
    method: "POST",
    headers: session,
    body: form,
  });
  expect([uploaded.status, await uploaded.json()]).toEqual([200, { success: true, file_size: 8 }]);
  expect(await get(`${base}/file?file_path=${path}`)).toBe("attached");

  // The V0 forms of the same.
  const legacy = `/api/conversations/${shown.id}`;
  expect(await get(`${legacy}/list-files`)).toEqual([".git/", ".openhands/", "PLAN.md", "a.txt"]);
  expect(await get(`${legacy}/list-files?path=.openhands`)).toEqual([
    ".openhands/hooks.json",
    ".openhands/skills/",
  ]);
  expect(await get(`${legacy}/select-file?file=a.txt`)).toEqual({ code: "two\n" });
  expect(await get(`${legacy}/select-file?file=none`)).toBe(404);
  expect((await get(`${legacy}/git/changes`)).at(-1)).toEqual({ status: "M", path: "a.txt" });
  expect((await get(`${legacy}/microagents`)).microagents).toMatchObject([{ name: "greet" }]);

  expect((await server.call("POST", `/api/v1/sandboxes/${shown.sandbox_id}/pause`)).status).toBe(200);
  expect([
    await get(`${base}/git/changes?path=.`),
    await get(`${base}/file`),
    await get(`${base}/skills`),
  ]).toEqual([409, "", { skills: [] }]);
  expect(
    (await server.call("POST", `${base}/send-message`, { content: [{ type: "text", text: "x" }] })).status,
  ).toBe(409);
  expect((await conversation(shown.id)).sandbox_status).toBe("PAUSED");
});

test("messages that arrive during the start of the conversation are answered in order afterwards", async () => {
  script = ({ messages }) => reply.text(`Seen: ${messages.at(-1)?.text}`);
  const { body: task } = await server.call("POST", "/api/v1/app-conversations", {});
  for (const text of ["first", "second"]) {
    const path = `/api/v1/conversations/task-${task.id}/pending-messages`;
    const queued = await server.call("POST", path, { content: [{ type: "text", text }] });
    expect(queued.status).toBe(201);
  }
  const id = await until(async () => {
    const { body } = await server.call("GET", `/api/v1/app-conversations/start-tasks?ids=${task.id}`);
    return body[0].app_conversation_id ?? undefined;
  });
  // The first may have been answered before the second is delivered.
  const said: string[] = await until(async () => {
    const { items } = (
      await server.call("GET", `/api/v1/conversation/${id}/events/search?kind__eq=MessageEvent`)
    ).body;
    const texts = items.map(({ source, llm_message }: Json) => `${source}: ${llm_message.content[0].text}`);
    return /^agent: Seen:.*second/s.test(texts.at(-1)) ? texts : undefined;
  });
  expect(said.filter((text) => text.startsWith("user"))).toEqual(["user: first", "user: second"]);
  await waitForEnd(id);
});

test("a conversation that is switched to another profile uses its model and key from the next call on", async () => {
  const path = "/api/v1/settings/profiles/other";
  const llm = { model: "openai/other", api_key: "sk-of-the-other-profile", base_url: models.url };
  expect((await server.call("POST", path, { llm })).status).toBe(201);
  const { promise: switched, resolve: goOn } = Promise.withResolvers<void>();
  const first = models.requests.length;
  script = async ({ index }) => {
    if (index > first) return finish("Done.");
    await switched;
    return reply.toolCalls([terminal("echo one")]);
  };
  const { id } = await startConversation(server.call, "Work");
  await until(() => models.requests.length > first || undefined);
  const base = `/api/v1/app-conversations/${id}`;
  expect(await server.call("POST", `${base}/switch_profile`, { profile_name: "other" })).toEqual({
    status: 200,
    body: { success: true },
  });
  goOn();
  await waitForEnd(id);
  const calls = models.requests.slice(first).map(({ body, apiKey }) => [body.model, apiKey]);
  expect(calls).toEqual([
    ["scripted", "sk-planted-secret"],
    ["other", "sk-of-the-other-profile"],
  ]);
  expect((await conversation(id)).llm_model).toBe("openai/other");
});
