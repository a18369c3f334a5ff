import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import {
  type ModelServer,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { acceptRepository } from "./support/accept-repository.ts";
import { type GitServer, startGitServer } from "./support/git-server.ts";
import { type Json, removeSandboxes, startConversation, until } from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";

/** Starts on repositories of a git service behind TLS, with real sandboxes. */

const token = "ghp_planted-token-of-the-user-0123456789";
let dataDir: string;
let git: GitServer;
let models: ModelServer;
let script: Script = () => finish("Done.");
let server: ServerProcess;

const env = () => ({ NODE_EXTRA_CA_CERTS: git.authority, SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8" });

beforeAll(async () => {
  git = await startGitServer(token);
  git.repository(
    "secret/widgets",
    {
      "AGENTS.md": "Always say widget.",
      ".openhands/microagents/paint.md": "---\ntriggers:\n- paint\n---\nUse the blue paint.",
      ".agents/skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Reads PDFs\n---\nSteps.",
      ".openhands/setup.sh":
        "export A=1\necho ran >>/tmp/setup-runs\n[ ! -e wait ] || while [ ! -e /tmp/go ]; do sleep 0.05; done\n",
      ".openhands/pre-commit.sh": "echo checked >>/tmp/hook-runs\n",
    },
    {
      "feature/one": { "feature.txt": "one\n" },
      slow: { wait: "" },
      hooked: {
        // Git waits for its configuration until /tmp/go exists.
        ".openhands/setup.sh": `echo 'echo before' >.git/hooks/pre-commit; mkfifo /tmp/hold; git config include.path /tmp/hold
(while [ ! -e /tmp/go ]; do sleep 0.05; done; sed -i /hold/d .git/config; exec 3<>/tmp/hold) &\n`,
      },
      broken: { ".openhands/setup.sh": "echo no compiler; exit 7\n" },
    },
  );
  git.repository("open/tool", {
    "skills/shine/SKILL.md": "---\nname: shine\ndescription: Makes it shine\n---\nPolish.",
  });
  models = await startModelServer((request) => script(request));
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-repository-"));
  const network = { allow: ["files.example"], private: ["127.0.0.0/8"] };
  await writeFile(join(dataDir, "specs.json"), JSON.stringify({ specs: [{ id: "host", network }] }));
  server = await startServerProcess(dataDir, env());
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  expect(
    (
      await server.call("POST", "/api/settings", {
        ...settings,
        git_user_name: "Ann",
        git_user_email: "ann@a.example",
      })
    ).status,
  ).toBe(200);
  const provider_tokens = { github: { token, host: git.host } };
  const stored = await server.call("POST", "/api/v1/secrets/git-providers", { provider_tokens });
  expect(stored).toMatchObject({ status: 200 });
});

afterEach(() => removeSandboxes(server.call));

afterAll(async () => {
  await server?.end("SIGTERM");
  await models?.close();
  await git?.close();
  await rm(dataDir, { recursive: true, force: true });
});

const events = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).body.items;
const task = async (id: string): Promise<Json> =>
  (await server.call("GET", `/api/v1/app-conversations/start-tasks?ids=${id}`)).body[0];
const waitForEnd = (id: string) =>
  until(async () => {
    const [found] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    return ["finished", "error"].includes(found.execution_status) ? found : undefined;
  });
const over = (id: string) =>
  until(async () => {
    const found = await task(id);
    return ["READY", "ERROR"].includes(found.status) ? found : undefined;
  });
const message = (text: string) => ({ initial_message: { content: [{ type: "text", text }] } });

/** The output of the agent's command in a conversation with these fields. */
async function agentSees(
  command: string,
  fields: Json,
): Promise<{ id: string; text: string; sandboxId: string }> {
  const first = models.requests.length;
  script = ({ index }) => (index === first ? reply.toolCalls([terminal(command)]) : finish("Done."));
  const { id, sandboxId } = await startConversation(server.call, "Work", fields);
  await waitForEnd(id);
  const observation = (await events(id)).find(({ kind }) => kind === "ObservationEvent");
  return { id, text: observation?.observation.content[0].text, sandboxId };
}

test("a private repository is cloned on a branch, with its instructions in the prompt, and the token stays outside", async () => {
  const command = `pwd; cat feature.txt; git status -sb | head -1; git log --oneline | wc -l; git config user.name; cat /tmp/setup-runs
git checkout -q -b mine && echo x >x && git add x && git commit -qm x && cat /tmp/hook-runs; git push -q origin mine 2>&1; env; cat .git/config`;
  const fields = {
    selected_repository: "secret/widgets",
    selected_branch: "feature/one",
    git_provider: "github",
  };
  git.git("secret/widgets", "config", "http.receivepack", "true");
  // It pushes with the token, which the repository's scripts could use, too.
  await acceptRepository(server.call, fields);
  const { id, text } = await agentSees(command.replace("\n", "; "), fields);
  const lines = text.split("\n");
  expect(lines.slice(0, 6)).toEqual([
    "/workspace/project/widgets",
    "one",
    "## feature/one...origin/feature/one",
    "1",
    "Ann",
    "ran",
  ]);
  expect(lines[6]).toBe("checked");
  expect(text).not.toContain(token);
  expect(git.git("secret/widgets", "branch", "--list", "mine")).toContain("mine");
  const [prompt, first] = await events(id);
  expect(prompt?.dynamic_context.text).toMatch(
    /secret\/widgets, branch feature\/one[\s\S]*Always say widget\.[\s\S]*<name>pdf<\/name>/,
  );
  expect(prompt?.dynamic_context.text).not.toContain("blue paint");
  expect(models.requests.at(-1)?.system).toContain("Always say widget.");
  expect(first).toMatchObject({ kind: "MessageEvent", activated_skills: [] });

  await server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text: "Paint it" }],
    run: true,
  });
  const painted = await until(async () =>
    (await events(id)).findLast((one) => one.kind === "MessageEvent" && one.activated_skills.length > 0),
  );
  expect(painted).toMatchObject({
    activated_skills: ["paint"],
    extended_content: [{ text: expect.stringContaining("Use the blue paint.") }],
  });
  await until(
    () =>
      models.requests.at(-1)?.messages.some(({ text }) => text.includes("Use the blue paint.")) || undefined,
  );
});

test("without a branch a new one is made; a child uses the parent's clone; the agent reads of a failed setup script", async () => {
  const parent = await agentSees("git rev-parse --abbrev-ref HEAD", {
    selected_repository: "secret/widgets",
  });
  expect(parent.text).toMatch(/^openhands-workspace-[0-9a-f]{8}\n/);
  const child = await agentSees("pwd; cat /tmp/setup-runs | wc -l", { parent_conversation_id: parent.id });
  expect(child).toMatchObject({ text: "/workspace/project/widgets\n1\n", sandboxId: parent.sandboxId });
  const [shown] = (await server.call("GET", `/api/v1/app-conversations?ids=${child.id}`)).body;
  expect(shown).toMatchObject({
    selected_repository: "secret/widgets",
    git_provider: "github",
    parent_conversation_id: parent.id,
  });

  const broken = await agentSees("true", {
    selected_repository: "secret/widgets",
    selected_branch: "broken",
  });
  expect((await events(broken.id))[0]?.dynamic_context.text).toMatch(
    /setup\.sh ended with exit code 7[\s\S]*no compiler/,
  );
});

test("plugins add skills, and their parameters are sent to the model; the stream shows every state", async () => {
  script = () => finish("Done.");
  const plugins = [{ source: "github:open/tool", ref: null, repo_path: null, parameters: { colour: "red" } }];
  const response = await fetch(`${server.url}/api/v1/app-conversations/stream-start`, {
    method: "POST",
    headers: { "x-session-api-key": server.key, "content-type": "application/json" },
    body: JSON.stringify({ ...message("Shine"), plugins, unknown: 1, observability_tags: null }),
  });
  expect(response.headers.get("content-type")).toContain("application/json");
  const text = await response.text();
  expect(text.split("\n")).toHaveLength(JSON.parse(text).length + 2);
  const states = JSON.parse(text).map(({ status }: Json) => status);
  expect([...new Set(states)]).toEqual([
    "WORKING",
    "WAITING_FOR_SANDBOX",
    "PREPARING_REPOSITORY",
    "RUNNING_SETUP_SCRIPT",
    "SETTING_UP_GIT_HOOKS",
    "SETTING_UP_SKILLS",
    "STARTING_CONVERSATION",
    "READY",
  ]);
  const id = JSON.parse(text).at(-1).app_conversation_id;
  await waitForEnd(id);
  const [prompt, first] = await events(id);
  expect(prompt?.dynamic_context.text).toContain("<name>shine</name>");
  expect(first?.llm_message.content.at(-1).text).toContain("- colour: red");
});

test.each([
  [{ selected_repository: "secret/nothing" }, /secret\/nothing cannot be read at 127.*token does not allow/],
  [{ selected_repository: "secret/widgets", selected_branch: "nowhere" }, /has no branch or tag nowhere/],
  [{ selected_repository: "a/b", git_provider: "gitlab" }, /a\/b could not be cloned|cannot be/],
])("a start that cannot clone %j reports the reason and leaves nothing behind", async (fields, reason) => {
  const { body } = await server.call("POST", "/api/v1/app-conversations", { ...message("Work"), ...fields });
  const end = await over(body.id);
  expect(end).toMatchObject({
    status: "ERROR",
    detail: expect.stringMatching(reason),
    app_conversation_id: null,
  });
  expect(end.detail).not.toContain(token);
  expect(
    (await server.call("GET", `/api/v1/app-conversations/search?sandbox_id__eq=${end.sandbox_id}`)).body
      .items,
  ).toEqual([]);
  expect((await server.call("GET", `/api/v1/sandboxes?id=${end.sandbox_id}`)).body).toEqual([null]);
});

test("a private plugin without a token gets an error that names what is missing", async () => {
  const plugins = [{ source: `https://${git.host}/secret/widgets.git` }];
  const { body } = await server.call("POST", "/api/v1/app-conversations", { ...message("Work"), plugins });
  expect(await over(body.id)).toMatchObject({
    status: "ERROR",
    detail: expect.stringMatching(/is private and needs a github token/),
  });
});

test("a child whose parent is deleted while it is started leaves nothing behind", async () => {
  script = () => finish("Done.");
  const parent = await startConversation(server.call, "Work");
  const release = git.hold("open/tool");
  const fields = {
    ...message("Work"),
    parent_conversation_id: parent.id,
    plugins: [{ source: "open/tool" }],
  };
  const { body } = await server.call("POST", "/api/v1/app-conversations", fields);
  await until(async () => (await task(body.id)).detail === "Fetching plugins." || undefined);
  expect((await server.call("DELETE", `/api/v1/app-conversations/${parent.id}`)).status).toBe(200);
  release();
  const end = await over(body.id);
  expect(end).toMatchObject({ status: "ERROR", detail: expect.stringMatching(/was deleted/) });
  const { body: left } = await server.call(
    "GET",
    `/api/v1/app-conversations/search?sandbox_id__eq=${parent.sandboxId}`,
  );
  expect(left.items).toEqual([]);
  expect((await server.call("GET", `/api/v1/sandboxes?id=${parent.sandboxId}`)).body).toEqual([null]);
});

test("a start whose sandbox is stopped for a snapshot during its clone clones again", async () => {
  script = () => finish("Done.");
  const first = await startConversation(server.call, "Work", { plugins: [{ source: "open/tool" }] });
  const release = git.hold("secret/widgets");
  const before = git.seen.length;
  const fields = { ...message("Work"), sandbox_id: first.sandboxId, selected_repository: "secret/widgets" };
  const { body } = await server.call("POST", "/api/v1/app-conversations", fields);
  await until(() => git.seen.slice(before).some(({ path }) => path.includes("widgets")) || undefined);
  expect((await server.call("POST", `/api/v1/sandboxes/${first.sandboxId}/snapshots`)).status).toBe(201);
  release();
  expect(await over(body.id)).toMatchObject({ status: "READY", detail: null });
});

test("a conversation that is deleted while its repository is cloned leaves nothing behind", async () => {
  const release = git.hold("secret/widgets");
  const conversation_id = "11111111222233334444555555555555";
  const fields = { ...message("Work"), conversation_id, selected_repository: "secret/widgets" };
  const { body } = await server.call("POST", "/api/v1/app-conversations", fields);
  await until(async () => (await task(body.id)).status === "PREPARING_REPOSITORY" || undefined);
  expect((await server.call("DELETE", `/api/v1/app-conversations/${conversation_id}`)).status).toBe(200);
  release();
  const end = await over(body.id);
  expect(end.status).toBe("ERROR");
  expect((await server.call("GET", `/api/v1/sandboxes?id=${end.sandbox_id}`)).body).toEqual([null]);
  expect((await server.call("GET", `/api/v1/app-conversations?ids=${conversation_id}`)).body).toEqual([null]);
});

const inState = (id: string, status: string) =>
  until(async () => ((await task(id)).status === status ? true : undefined));
const held = [
  ["PREPARING_REPOSITORY", { selected_branch: "main" }, "secret/widgets"],
  ["RUNNING_SETUP_SCRIPT", { selected_branch: "slow" }, undefined],
  ["PREPARING_REPOSITORY", { selected_branch: "main", plugins: [{ source: "open/tool" }] }, "open/tool"],
] as const;

test.each(held)(
  "kill -9 in %s: the next server continues from the existing state",
  async (state, fields, repository) => {
    const first = models.requests.length;
    script = ({ index }) =>
      index === first
        ? reply.toolCalls([terminal("git status -s; ls -A ..; cat /tmp/setup-runs")])
        : finish("Done.");
    const release = repository ? git.hold(repository) : () => {};
    const { body } = await server.call("POST", "/api/v1/app-conversations", {
      ...message("Work"),
      selected_repository: "secret/widgets",
      ...fields,
    });
    await inState(body.id, state);
    if (repository) await until(() => git.seen.some(({ path }) => path.includes(repository)) || undefined);
    await server.end("SIGKILL");
    release();
    server = await startServerProcess(dataDir, env());
    if (!repository) {
      await inState(body.id, state);
      const { sandbox_id } = await task(body.id);
      await fetch(`${server.url}/api/v1/sandboxes/${sandbox_id}/files?path=/tmp/go`, {
        method: "PUT",
        headers: { "x-session-api-key": server.key, "content-type": "application/octet-stream" },
        body: "",
      });
    }
    const end = await over(body.id);
    expect(end).toMatchObject({ status: "READY", detail: null });
    await waitForEnd(end.app_conversation_id);
    const stored = await events(end.app_conversation_id);
    expect(stored.filter(({ kind, source }) => kind === "MessageEvent" && source === "user")).toHaveLength(1);
    const seen = stored.find(({ kind }) => kind === "ObservationEvent")?.observation.content[0].text;
    expect(seen).toBe("widgets\nran\n");
  },
);

test("kill -9 in SETTING_UP_GIT_HOOKS: the hooks are installed once, and call the existing hook", async () => {
  const first = models.requests.length;
  const look =
    "cat .git/hooks/pre-commit | grep -c Installed; cat .git/hooks/pre-commit.local; ls -A .git/hooks | grep -c '^.pre'";
  script = ({ index }) => (index === first ? reply.toolCalls([terminal(look)]) : finish("Done."));
  const body = { ...message("Work"), selected_repository: "secret/widgets", selected_branch: "hooked" };
  const { body: started } = await server.call("POST", "/api/v1/app-conversations", body);
  await inState(started.id, "SETTING_UP_GIT_HOOKS");
  await server.end("SIGKILL");
  server = await startServerProcess(dataDir, env());
  const { sandbox_id } = await task(started.id);
  const path = `/api/v1/sandboxes/${sandbox_id}/files?path=/tmp/go`;
  const headers = { "x-session-api-key": server.key, "content-type": "application/octet-stream" };
  await fetch(`${server.url}${path}`, { method: "PUT", headers, body: "" });
  const end = await over(started.id);
  expect(end).toMatchObject({ status: "READY" });
  await waitForEnd(end.app_conversation_id);
  const seen = (await events(end.app_conversation_id)).find(({ kind }) => kind === "ObservationEvent");
  expect(seen?.observation.content[0].text).toBe("1\necho before\n0\n");
});

test("kill -9 while the first message is being answered: it is stored once, and answered", async () => {
  const first = models.requests.length;
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  script = ({ index }) => {
    if (index > first) return finish("Done.");
    ask();
    return reply.hang();
  };
  const fields = { ...message("Work"), selected_repository: "secret/widgets" };
  const { body } = await server.call("POST", "/api/v1/app-conversations", fields);
  await asked;
  await server.end("SIGKILL");
  server = await startServerProcess(dataDir, env());
  const { status, app_conversation_id: id } = await over(body.id);
  expect(status).toBe("READY");
  await waitForEnd(id);
  const stored = await events(id);
  expect(stored.filter(({ kind, source }) => kind === "MessageEvent" && source === "user")).toHaveLength(1);
});

test("kill -9 between the first message and READY: the message is stored once", async () => {
  script = () => finish("Done.");
  const { body } = await server.call("POST", "/api/v1/app-conversations", {
    ...message("Work"),
    selected_repository: "secret/widgets",
  });
  const { app_conversation_id: id } = await over(body.id);
  await waitForEnd(id);
  await server.end("SIGKILL");
  const database = new DatabaseSync(join(dataDir, "store", "sandpiper.db"));
  database.exec(
    "UPDATE start_tasks SET status = 'STARTING_CONVERSATION' WHERE id = (SELECT id FROM start_tasks ORDER BY number DESC LIMIT 1)",
  );
  database.close();
  server = await startServerProcess(dataDir, env());
  expect(await over(body.id)).toMatchObject({ status: "READY", detail: null });
  const stored = await events(id);
  expect(stored.filter(({ kind, source }) => kind === "MessageEvent" && source === "user")).toHaveLength(1);
});
