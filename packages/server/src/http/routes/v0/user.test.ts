import { afterAll, beforeAll, expect, test } from "vitest";
import { bitbucketToken, serveBitbucket } from "../../../../test/support/git-services/bitbucket.ts";
import { forgejoToken, serveForgejo } from "../../../../test/support/git-services/forgejo.ts";
import { githubToken, serveGithub } from "../../../../test/support/git-services/github.ts";
import { gitlabToken, serveGitlab } from "../../../../test/support/git-services/gitlab.ts";
import type { ProviderServer } from "../../../../test/support/git-services/serve.ts";
import { read, startServer, strangerKey, type TestServer } from "../../../../test/support/test-server.ts";
import { defaultUser } from "../../../users/default-user.ts";

let server: TestServer;
let github: ProviderServer;
let others: ProviderServer[];
beforeAll(async () => {
  server = await startServer({ outboundPrivate: ["127.0.0.1"] });
  github = await serveGithub();
  others = [await serveGitlab(), await serveBitbucket(), await serveForgejo()];
  const [gitlab, bitbucket, forgejo] = others;
  await server.secrets.setProviders(
    defaultUser,
    new Map([
      ["github", { token: githubToken, host: github.host }],
      ["gitlab", { token: gitlabToken, host: gitlab!.host }],
      ["bitbucket", { token: bitbucketToken, host: bitbucket!.host }],
      ["forgejo", { token: forgejoToken, host: forgejo!.host }],
    ]),
  );
});
afterAll(async () => {
  for (const one of [github, ...others]) one.close();
  await server.close();
});
const get = (path: string) => read(server.call("GET", `/api/user/${path}`));
/** How the released GUI finds the number of the next page. */
const nextPage = (link: string | null) =>
  /<[^>]*[?&]page=(\d+)(?:&[^>]*)?>;\s*rel="next"/.exec(link ?? "")?.[1];

test("repositories are listed by page, each with the link of the next page", async () => {
  for (const provider of ["github", "gitlab", "bitbucket", "forgejo"]) {
    const { status, body } = await get(
      `repositories?selected_provider=${provider}&sort=pushed&page=1&per_page=2`,
    );
    expect([status, body.length, nextPage(body[0].link_header)]).toEqual([200, 2, "2"]);
    const last = await get(`repositories?selected_provider=${provider}&sort=pushed&page=2&per_page=2`);
    expect([last.body.length, last.body[0].link_header]).toEqual([1, null]);
  }
  const all = await get("repositories?page=1&per_page=1");
  expect(all.body.map((one: any) => one.git_provider)).toEqual(["github", "gitlab", "bitbucket", "forgejo"]);
  expect((await get("repositories?selected_provider=bitbucket&installation_id=play")).body).toMatchObject([
    { full_name: "play/toy" },
  ]);
});

test("repositories are searched at one provider or all", async () => {
  expect(
    (await get("search/repositories?query=widgets&per_page=3&selected_provider=github")).body,
  ).toMatchObject([{ full_name: "acme/widgets", git_provider: "github" }]);
  const all = await get("search/repositories?query=to&sort=best&order=match");
  expect(all.body.map((one: any) => one.full_name).sort()).toEqual(["play/toy", "team/sub/tool"]);
  expect((await get("search/repositories?query=")).status).toBe(200);
  expect((await get("search/repositories")).status).toBe(422);
});

test("branches are found at the provider that has the repository", async () => {
  expect((await get("repository/branches?repository=acme%2Fwidgets&page=1&per_page=2")).body).toEqual({
    branches: [
      { name: "main", commit_sha: "0".repeat(40), protected: true },
      { name: "feature/one", commit_sha: "1".repeat(40), protected: false },
    ],
    ...{ has_next_page: true, current_page: 1, per_page: 2 },
  });
  const last = await get("repository/branches?repository=team%2Fsub%2Ftool&page=2&per_page=2");
  expect(last.body).toMatchObject({ branches: [{ name: "fix-2" }], has_next_page: false, current_page: 2 });
  expect((await get("search/branches?repository=work%2Fapi&query=topic&per_page=30")).body).toMatchObject([
    { name: "topic/a" },
    { name: "topic/b" },
  ]);
  expect(await get("repository/branches?repository=no%2Fsuch")).toMatchObject({
    status: 404,
    body: { error: expect.stringContaining("no/such") },
  });
  expect((await get("repository/branches?repository=widgets")).status).toBe(400);
});

test("the user, installations and tasks are read", async () => {
  expect((await get("info")).body).toMatchObject({ id: "5", login: "ann" });
  expect((await get("installations?provider=bitbucket")).body).toEqual(["work", "play"]);
  expect((await get("suggested-tasks")).body).toHaveLength(16);
  for (const path of [
    "info",
    "installations?provider=github",
    "suggested-tasks",
    "repositories",
    "search/repositories?query=x",
  ]) {
    const answer = await read(server.call("GET", `/api/user/${path}`, { key: strangerKey }));
    expect([path, answer.status, answer.body.error]).toEqual([
      path,
      401,
      "Git provider token required (such as GitHub).",
    ]);
  }
});

const skills: [string, string, string, string, string[]][] = [
  ["acme/widgets", "github", ".openhands/skills/deploy.md", "Run the deploy script.", ["deploy", "ship it"]],
  ["team/sub/tool", "gitlab", ".openhands/microagents/style.md", "Use short names.", []],
  ["work/api", "bitbucket", ".openhands/skills/a.md", "Be brief.", []],
  ["club/site", "forgejo", ".openhands/skills/a.md", "Be kind.", []],
];
test.each(skills)(
  "the skill files of %s (%s) are listed and read",
  async (repository, git_provider, path, content, triggers) => {
    for (const name of [
      encodeURIComponent(repository),
      ...(repository.split("/").length === 2 ? [repository] : []),
    ]) {
      const { body } = await get(`repository/${name}/microagents`);
      const time = expect.stringMatching(/^2026-02-03T0[34]:05:06.000Z$/);
      expect(body).toEqual([{ name: path.split("/").at(-1)!.replace(".md", ""), path, created_at: time }]);
      const read = await get(`repository/${name}/microagents/content?file_path=${encodeURIComponent(path)}`);
      expect(read).toEqual({ status: 200, body: { content, path, triggers, git_provider } });
    }
  },
);

test("only skill files can be read, and nothing outside of their folders", async () => {
  const read = (path: string) =>
    get(`repository/acme/widgets/microagents/content?file_path=${encodeURIComponent(path)}`);
  const bad = [
    ".openhands/skills/none.md",
    ".openhands/skills/logo.png",
    "README.md",
    ".openhands/skills/../../x.md",
    "/etc/passwd",
    "",
  ];
  for (const path of bad) expect([path, (await read(path)).status]).toEqual([path, 404]);
  expect((await get("repository/acme/widgets/microagents/content")).status).toBe(422);
  expect((await get("repository/ann/notes/microagents")).body).toEqual([]);
  expect((await get("repository/no/such/microagents")).status).toBe(404);
  expect((await get("repository/..%2F../microagents")).status).toBe(400);
});
