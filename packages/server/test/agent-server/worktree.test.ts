import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { hexId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, startTestPlatform, type TestPlatform, until } from "../support/platform.ts";
import { obey } from "../support/script.ts";

/** Conversations that work in git worktrees of their own (agent-server.md section 3). */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;

beforeAll(async () => {
  models = await startModelServer(obey);
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
});

const project = "/workspace/it's a repo";

async function sh(command: string, cwd = "/"): Promise<string> {
  const { body } = await agent.call("POST", "/api/bash/execute_bash_command", { command, cwd });
  expect([command, body.exit_code, body.stderr]).toEqual([command, 0, body.stderr]);
  return body.stdout ?? "";
}
const make = (folder: string, change: Json = {}) =>
  agent.call(
    "POST",
    "/api/conversations",
    sdkRequest(models.url, { worktree: true, workspace: { working_dir: folder }, ...change }),
  );
const drop = (id: string) => agent.call("DELETE", `/api/conversations/${id}`);
const info = async (id: string): Promise<Json> => (await agent.call("GET", `/api/conversations/${id}`)).body;
async function say(id: string, text: string): Promise<void> {
  await agent.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text }],
    run: true,
  });
  await until(async () => ((await info(id)).execution_status === "finished" ? true : undefined));
}
const branches = async () =>
  (await sh("git branch --format='%(refname:short)'", project)).trim().split("\n").sort();

test("each agent works on its own branch in its own worktree, which is removed with the conversation", async () => {
  await sh(
    `mkdir -p "${project}/docs" && cd "${project}" && git init -q -b main && git config user.name Ann && git config user.email a@b.c &&
     echo one > docs/a.txt && git add . && git commit -q -m one && echo mine > draft.txt`,
  );
  const [one, two] = (await Promise.all([make(project), make(`${project}/docs`)])).map(({ status, body }) => {
    expect(status).toBe(201);
    return body as Json;
  });
  const tree = (id: string) => `/tmp/conversation-worktrees/${id}/it's a repo`;
  const branch = (id: string) => `openhands/${id}`;
  expect(one!.workspace.working_dir).toBe(tree(one!.id));
  expect(two!.workspace.working_dir).toBe(`${tree(two!.id)}/docs`);
  expect((await info(one!.id)).workspace.working_dir).toBe(tree(one!.id));

  await say(one!.id, "run: pwd > where.txt && git add . && git commit -q -m two && echo more > more.txt");
  await say(two!.id, "run: echo two > a.txt");
  expect(await sh("cat where.txt && git branch --show-current", tree(one!.id))).toBe(
    `${tree(one!.id)}\n${branch(one!.id)}\n`,
  );
  expect(await sh("git status --short", tree(two!.id))).toBe(" M docs/a.txt\n");
  expect(await sh("cat docs/a.txt && git status --short && git log --format=%s", project)).toBe(
    "one\n?? draft.txt\none\n",
  );

  // A fork without files of its own works there too.
  const fork = (await agent.call("POST", `/api/conversations/${one!.id}/fork`, {})).body;
  expect(fork.workspace.working_dir).toBe(tree(one!.id));
  expect((await drop(one!.id)).status).toBe(200);
  expect(await sh("cat more.txt", tree(one!.id))).toBe("more\n");

  expect((await drop(fork.id)).status).toBe(200);
  expect((await drop(two!.id)).status).toBe(200);
  expect(
    await sh("ls /tmp/conversation-worktrees && git worktree list --porcelain | grep -c ^worktree", project),
  ).toBe("1\n");
  // The committed work is still there.
  expect(await branches()).toEqual(["main", branch(one!.id)]);

  // A conversation with the same id continues on its branch.
  expect((await make(project, { conversation_id: one!.id })).body.workspace.working_dir).toBe(tree(one!.id));
  expect(await sh("git log --format=%s", tree(one!.id))).toBe("two\none\n");
});

test("a worktree begins where its options say, on a branch with their prefix", async () => {
  const repository = "/workspace/based";
  await sh(
    `git init -q -b main ${repository} && cd ${repository} && git config user.name Ann && git config user.email a@b.c &&
     git commit -q --allow-empty -m main && git tag old && git commit -q --allow-empty -m newer && git switch -q -c work && git commit -q --allow-empty -m work`,
  );
  const begin = async (worktree_options?: Json) => {
    const { status, body } = await make(repository, worktree_options && { worktree_options });
    if (status !== 201) return [status];
    const folder = body.workspace.working_dir;
    const [subject, branch] = (await sh("git log -1 --format=%s; git branch --show-current", folder)).split(
      "\n",
    );
    expect((await drop(body.id)).status).toBe(200);
    return [status, subject, branch!.replace(body.id, "ID")];
  };
  expect(await begin()).toEqual([201, "work", "openhands/ID"]);
  expect(await begin({})).toEqual([201, "newer", "openhands/ID"]);
  expect(await begin({ base: "head", branch_prefix: "mine/" })).toEqual([201, "work", "mine/ID"]);
  expect(await begin({ base: "ref", ref: "old", branch_prefix: "" })).toEqual([201, "main", "ID"]);
  for (const wrong of [
    { base: "ref" },
    { base: "ref", ref: "no-such-branch" },
    { base: "ref", ref: "-q" },
    { base: "other" },
    { branch_prefix: "a..b/" },
    { branch_prefix: "../" },
    { depth: 1 },
  ])
    expect([wrong, await begin(wrong)]).toEqual([wrong, [422]]);
  expect(await sh("git branch --format='%(refname:short)'", repository)).toMatch(
    /^(main|work)\n(main|work)\n$/,
  );
  expect((await make(repository, { conversation_runtime: "local" })).status).toBe(201);
  expect(await make(repository, { conversation_runtime: "docker" })).toEqual({
    status: 422,
    body: { detail: "This server only runs local conversations" },
  });
});

test("a child has its parent's agent, tags and secrets, and works on its task in a worktree", async () => {
  const repository = "/workspace/family";
  await sh(
    `git init -q -b main ${repository} && cd ${repository} && git config user.name Ann && git config user.email a@b.c && git commit -q --allow-empty -m main`,
  );
  const { body: parent } = await make(repository, {
    worktree: false,
    tags: { team: "blue" },
    secrets: { CHILD_TOKEN: "child-token-value" },
  });
  const path = `/api/conversations/${parent.id}/children`;
  const start = (body: Json) => agent.call("POST", path, body);
  const { status, body: child } = await start({ task: "run: pwd > where.txt", title: "Child" });
  const folder = `/tmp/conversation-worktrees/${child.conversation_id}/family`;
  expect([status, child]).toEqual([
    201,
    {
      conversation_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      parent_conversation_id: parent.id,
      status: expect.any(String),
      title: "Child",
      url: null,
      workspace: folder,
      isolation: "worktree",
    },
  ]);
  const end = (id: string) =>
    until(async () => ((await info(id)).execution_status === "finished" ? true : undefined));
  await end(child.conversation_id);
  expect(await sh("cat where.txt", folder)).toBe(`${folder}\n`);
  const shown = await info(child.conversation_id);
  expect(shown).toMatchObject({
    tags: { team: "blue" },
    agent: { llm: { model: "openai/scripted" } },
    parent_conversation_id: parent.id,
    forked_from_conversation_id: null,
  });
  expect(Object.keys(shown.secret_registry.secret_sources)).toEqual(["CHILD_TOKEN"]);
  expect((await info(parent.id)).sub_conversation_ids).toEqual([hexId(child.conversation_id)]);

  const shared = (await start({ task: "run: pwd > where.txt", isolation: "shared" })).body;
  expect(shared).toMatchObject({ workspace: repository, isolation: "shared", title: "run: pwd > where.txt" });
  await end(shared.conversation_id);
  expect(await sh("cat where.txt", repository)).toBe(`${repository}\n`);
  // A folder that is no repository is shared.
  const plain = (await make("/workspace/plain", { worktree: false })).body;
  const third = await agent.call("POST", `/api/conversations/${plain.id}/children`, { task: "run: true" });
  expect(third.body).toMatchObject({ workspace: "/workspace/plain", isolation: "shared" });

  for (const wrong of [{}, { task: "" }, { task: "x", isolation: "docker" }, { task: 1 }])
    expect([wrong, (await start(wrong)).status]).toEqual([wrong, 422]);
  const other = await startAgentServer(platform);
  expect((await other.call("POST", path, { task: "run: true" })).status).toBe(404);
  // Children are removed with their parent.
  expect((await drop(parent.id)).status).toBe(200);
  for (const one of [child, shared])
    expect((await agent.call("GET", `/api/conversations/${one.conversation_id}`)).status).toBe(404);
  expect(await sh("ls /tmp/conversation-worktrees")).not.toContain(child.conversation_id);
});

test("without a repository, or a commit in it, the agent works in the folder itself", async () => {
  await sh("mkdir -p /workspace/new && cd /workspace/new && git init -q");
  for (const folder of ["/workspace/new", "/workspace/missing", "/"]) {
    const { status, body } = await make(folder);
    expect([status, body.workspace.working_dir]).toEqual([201, folder]);
    await drop(body.id);
  }
});

test("an error of git is reported, and no conversation is left", async () => {
  const id = "aaaaaaaa-1111-4222-8333-444455556666";
  await sh(
    `mkdir -p "/tmp/conversation-worktrees/${id}/it's a repo" && touch "/tmp/conversation-worktrees/${id}/it's a repo/taken"`,
  );
  const refused = await make(project, { conversation_id: id });
  expect([refused.status, refused.body.detail]).toEqual([
    502,
    expect.stringMatching(/worktree could not be created: .*already exists/),
  ]);
  expect((await agent.call("GET", `/api/conversations/${id}`)).status).toBe(404);
  expect(await branches()).not.toContain(`openhands/${id}`);
});
