import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type GitServer, startGitServer } from "../support/git-server.ts";
import { type Json, removeSandboxes, until } from "../support/platform.ts";
import { finish } from "../support/script.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

/** Plugins of clients' conversations, from a git service behind TLS, with a separate server. */

const token = "token-of-one-fetch";

let dataDir: string;
let git: GitServer;
let models: ModelServer;
let server: ServerProcess;
let agent: AgentServer;

beforeAll(async () => {
  git = await startGitServer(token);
  git.repository("open/tool", {
    "skills/shine/SKILL.md": "---\nname: shine\ndescription: Makes it shine\n---\nPolish.",
    "skills/paint.md": "---\nname: paint\ntriggers:\n- paint\n---\nUse the blue paint.",
  });
  git.repository("open/whole", {
    ".plugin/plugin.json": '{"name": "whole", "version": "2.1.0", "author": {"name": "Ann"}}',
    "skills/shine/SKILL.md": "---\nname: shine\ndescription: Makes it shine\n---\nPolish.",
    "commands/tidy.md": "Tidy up.",
    "hooks/hooks.json": '{"hooks": {"SessionStart": [{"hooks": [{"command": "touch /tmp/ran"}]}]}}',
    "nested/part/skills/one.md": "One.",
    "broken/.claude-plugin/plugin.json": "[]",
  });
  git.repository("open/shared", { "skills/rule.md": "Rule." });
  git.repository("open/held", { "skills/rule.md": "Rule." });
  git.repository("secret/tool", { "skills/rule.md": "Rule." });
  git.repository("open/late", { "skills/rule.md": "Always say rule." });
  models = await startModelServer(() => finish("Done."));
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-plugins-"));
  const network = { allow: [git.host], private: ["127.0.0.0/8"] };
  await writeFile(join(dataDir, "specs.json"), JSON.stringify({ specs: [{ id: "host", network }] }));
  server = await startServerProcess(dataDir, {
    NODE_EXTRA_CA_CERTS: git.authority,
    SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8",
  });
  // With a secret the proxy intercepts TLS, and the sandbox trusts the server's authorities.
  await server.call("POST", "/api/v1/secrets", { name: "ANY", value: "any-value" });
  agent = await startAgentServer(server);
});
afterAll(async () => {
  if (server) await removeSandboxes(server.call);
  await server?.end("SIGTERM");
  await models?.close();
  await git?.close();
  if (dataDir) await rm(dataDir, { recursive: true, force: true });
});

const content = (text: string) => ({ role: "user", content: [{ type: "text", text }] });
const source = (name: string) => `https://${git.host}/open/${name}.git`;
const waitForEnd = (id: string) =>
  until(
    async () =>
      (await agent.call("GET", `/api/conversations/${id}`)).body.execution_status === "finished" || undefined,
  );
const events = async (id: string): Promise<Json[]> =>
  (await agent.call("GET", `/api/conversations/${id}/events/search`)).body.items;

test("plugins of the creation request are loaded before the first message, with their parameters", async () => {
  const plugins = [{ source: source("tool"), ref: "main", parameters: { colour: "red" } }];
  const made = await agent.call(
    "POST",
    "/api/conversations",
    sdkRequest(models.url, { plugins, initial_message: content("paint it") }),
  );
  expect([made.status, made.body]).toEqual([201, made.body]);
  await waitForEnd(made.body.id);
  const [prompt, first] = await events(made.body.id);
  expect(prompt!.dynamic_context.text).toContain("<name>shine</name>");
  expect(first!.activated_skills).toEqual(["paint"]);
  expect(first!.llm_message.content.at(-1).text).toContain("- colour: red");
});

test("a plugin that is loaded later is announced once, with the next message", async () => {
  const { body } = await agent.call(
    "POST",
    "/api/conversations",
    sdkRequest(models.url, { initial_message: content("begin") }),
  );
  await waitForEnd(body.id);
  const load = () =>
    agent.call("POST", `/api/conversations/${body.id}/load_plugin`, { plugin_ref: source("late") });
  expect(await Promise.all([load(), load()])).toEqual([
    { status: 200, body: { success: true } },
    { status: 200, body: { success: true } },
  ]);
  await agent.call("POST", `/api/conversations/${body.id}/events`, { ...content("go on"), run: true });
  await waitForEnd(body.id);
  expect(models.requests.at(-1)!.messages.at(-1)!.text).toContain("Always say rule.");
  await agent.call("POST", `/api/conversations/${body.id}/events`, content("and on"));
  const messages = (await events(body.id)).filter(
    ({ kind, source }) => kind === "MessageEvent" && source === "user",
  );
  expect(messages.map(({ activated_skills }) => activated_skills)).toEqual([[], ["rule"], []]);
});

test("a plugin that cannot be fetched fails the creation with the reason, and no conversation is left", async () => {
  const before = (await agent.call("GET", "/api/conversations/count")).body;
  const refusals: [string, RegExp][] = [
    [source("nothing"), /cannot be read|could not be cloned/],
    ["https://files.example/open/tool.git", /network policy/],
    ["/etc", /source of a plugin/],
  ];
  for (const [plugin, reason] of refusals) {
    const refused = await agent.call(
      "POST",
      "/api/conversations",
      sdkRequest(models.url, { plugins: [{ source: plugin }] }),
    );
    expect(refused).toMatchObject({ status: 422, body: { detail: expect.stringMatching(reason) } });
  }
  expect((await agent.call("GET", "/api/conversations/count")).body).toBe(before);
});

test("concurrent creations with the same id create one conversation", async () => {
  const conversation_id = "11111111-2222-4333-8444-555555555555";
  const body = sdkRequest(models.url, { conversation_id, plugins: [{ source: source("tool") }] });
  const answers = await Promise.all([1, 2, 3].map(() => agent.call("POST", "/api/conversations", body)));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 201]);
});

test("conversations that need the same plugin at once all get it", async () => {
  const body = sdkRequest(models.url, { plugins: [{ source: source("shared") }] });
  const answers = await Promise.all([1, 2, 3, 4].map(() => agent.call("POST", "/api/conversations", body)));
  expect(answers.map(({ status, body }) => [status, body.detail])).toEqual(
    answers.map(() => [201, undefined]),
  );
});

const fetchPlugin = (body: object) => agent.call("POST", "/api/plugins/fetch", body);

test("a fetched plugin is described with its commit, and nothing of it runs", async () => {
  const whole = await fetchPlugin({ source: source("whole"), ref: "main" });
  expect(whole).toEqual({
    status: 200,
    body: {
      path: expect.stringMatching(/\/\.sandpiper-plugins\/whole-[0-9a-f]{12}$/),
      resolved_ref: git.git("open/whole", "rev-parse", "main").trim(),
      source: source("whole"),
      repo_path: null,
      manifest: { name: "whole", version: "2.1.0", author: { name: "Ann" } },
      skills: ["shine"],
      commands: ["tidy"],
    },
  });
  const part = await fetchPlugin({ source: source("whole"), ref: "main", repo_path: "nested/part" });
  expect(part.body).toMatchObject({
    path: `${whole.body.path}/nested/part`,
    repo_path: "nested/part",
    manifest: { name: "part" },
    skills: ["one"],
    commands: [],
  });
  const { body } = await agent.call("POST", "/api/bash/execute_bash_command", {
    command: `ls /tmp/ran; cat ${whole.body.path}/commands/tidy.md`,
  });
  expect(body.stdout).toBe("Tidy up.");
});

test("a plugin that cannot be fetched answers with a code and a sentence", async () => {
  const whole = { source: source("whole") };
  const rows: [object, number, string, RegExp][] = [
    [{ source: "/etc" }, 422, "invalid_parameter", /source of a plugin/],
    [{ ...whole, repo_path: "../up" }, 422, "invalid_parameter", /repo_path/],
    [{ ...whole, repo_path: "none" }, 422, "invalid_parameter", /open\/whole has no folder none/],
    [{ ...whole, repo_path: "broken" }, 422, "invalid_parameter", /manifest .* not a JSON object/],
    [{ ...whole, ref: "none" }, 502, "plugin_fetch_failed", /no branch or tag none/],
    [{ source: source("nothing") }, 502, "plugin_fetch_failed", /cannot be read/],
  ];
  for (const [body, status, code, message] of rows)
    expect(await fetchPlugin(body)).toEqual({
      status,
      body: { detail: { code, message: expect.stringMatching(message) } },
    });
  expect((await fetchPlugin({ ...whole, timeout: 601 })).body.detail[0].loc).toEqual(["body", "timeout"]);
  const release = git.hold("open/held");
  const late = await fetchPlugin({ source: source("held"), timeout: 1 });
  release();
  expect(late).toEqual({
    status: 504,
    body: { detail: { code: "plugin_fetch_timeout", message: "Fetching open/held took longer than 1 s." } },
  });
});

test("a secret of the request opens a private repository for this fetch alone", async () => {
  const request = { source: `https://${git.host}/secret/tool.git` };
  const fails = { status: 502, body: { detail: { code: "plugin_fetch_failed" } } };
  expect(await fetchPlugin(request)).toMatchObject(fails);
  expect(await fetchPlugin({ ...request, secrets: { GITHUB_TOKEN: "wrong-token" } })).toMatchObject(fails);
  expect(await fetchPlugin({ ...request, secrets: { GITHUB_TOKEN: token, OTHER: "x" } })).toMatchObject({
    status: 200,
    body: { skills: ["rule"], manifest: { name: "tool" } },
  });
  // Another ref is another clone, and needs the token again.
  expect(await fetchPlugin({ ...request, ref: "main" })).toMatchObject(fails);
  const { body } = await agent.call("POST", "/api/bash/execute_bash_command", {
    command: "cat ~/.sandpiper-plugins/tool-*/.git/config; env",
  });
  expect(body.stdout).toContain("secret/tool.git");
  expect(body.stdout).not.toMatch(/helper|LENT/);
  expect(body.stdout).not.toContain(token);
  expect(server.output()).not.toContain(token);
});
