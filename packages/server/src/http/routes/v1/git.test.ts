import type { ProviderType } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { bitbucketToken, serveBitbucket } from "../../../../test/support/git-services/bitbucket.ts";
import { forgejoToken, serveForgejo } from "../../../../test/support/git-services/forgejo.ts";
import { githubToken, serveGithub } from "../../../../test/support/git-services/github.ts";
import { gitlabToken, serveGitlab } from "../../../../test/support/git-services/gitlab.ts";
import type { ProviderServer } from "../../../../test/support/git-services/serve.ts";
import { read, startServer, strangerKey, type TestServer } from "../../../../test/support/test-server.ts";
import { defaultUser } from "../../../users/default-user.ts";

let server: TestServer;
const servers: Partial<Record<ProviderType, ProviderServer>> = {};
const tokens = { github: githubToken, gitlab: gitlabToken, bitbucket: bitbucketToken, forgejo: forgejoToken };
type Known = keyof typeof tokens;

beforeAll(async () => {
  server = await startServer({ outboundPrivate: ["127.0.0.0/8"] });
  servers.github = await serveGithub();
  servers.gitlab = await serveGitlab();
  servers.bitbucket = await serveBitbucket();
  servers.forgejo = await serveForgejo();
});
afterAll(async () => {
  for (const one of Object.values(servers)) one.close();
  await server.close();
});
afterEach(() => {
  for (const one of Object.values(servers)) Object.assign(one, { refusal: undefined, asked: [] });
});

/** Stores only the tokens of these providers. */
async function use(...providers: Known[]): Promise<void> {
  const all = providers.map((name) => [name, { token: tokens[name], host: servers[name]!.host }] as const);
  await server.secrets.setProviders(defaultUser, new Map(all));
}
const get = (path: string) => read(server.call("GET", path));
const v1 = (path: string) => get(`/api/v1/git/${path}`);

const firstPages: [Known, string[], string[], string[]][] = [
  ["github", ["ann/notes", "ann/web.site"], ["acme/widgets"], ["11", "12"]],
  ["gitlab", ["team/app", "team/sub/tool"], ["ann/notes"], ["team"]],
  ["bitbucket", ["work/ui", "play/toy"], ["work/api"], ["work", "play"]],
  ["forgejo", ["ann/garden", "club/site"], ["club/bot"], ["club"]],
];

test.each(firstPages)(
  "the repositories of %s are listed by page, and so are their installations",
  async (name, first, second, installations) => {
    await use(name);
    const one = await v1(`repositories/search?provider=${name}&limit=2`);
    expect(one.status).toBe(200);
    expect(one.body.items.map((item: any) => item.full_name)).toEqual(first);
    expect(Buffer.from(one.body.next_page_id, "base64").toString()).toBe("2");
    const two = await v1(
      `repositories/search?provider=${name}&limit=2&page_id=${encodeURIComponent(one.body.next_page_id)}`,
    );
    expect(two.body.items.map((item: any) => item.full_name)).toEqual(second);
    expect(two.body.next_page_id).toBeNull();
    expect((await v1(`repositories/search?provider=${name}&limit=2&page_id=%00nonsense`)).status).toBe(422);
    expect((await v1(`repositories/search?provider=${name}&limit=2&page_id=nonsense`)).body).toEqual(
      one.body,
    );

    expect((await v1(`installations/search?provider=${name}`)).body).toEqual({
      items: installations,
      next_page_id: null,
    });
    const last = installations.at(-1)!;
    const narrowed = await v1(`repositories/search?provider=${name}&installation_id=${last}`);
    expect(narrowed.body.items.length).toBeGreaterThan(0);
    expect(narrowed.body.items.length).toBeLessThan(3);
  },
);

test("a repository has its metadata, including whether it is private", async () => {
  await use("github", "gitlab", "bitbucket", "forgejo");
  expect((await v1("repositories/search?provider=github&limit=1")).body.items).toEqual([
    {
      ...{ id: "1", full_name: "ann/notes", git_provider: "github", is_public: false, stargazers_count: 1 },
      ...{ pushed_at: "2026-01-01T00:00:00Z", owner_type: "user", main_branch: "main" },
    },
  ]);
  expect((await v1("repositories/search?provider=gitlab&limit=1")).body.items[0]).toMatchObject({
    ...{
      id: "3",
      full_name: "team/app",
      git_provider: "gitlab",
      is_public: true,
      owner_type: "organization",
      main_branch: "main",
    },
  });
  expect((await v1("repositories/search?provider=bitbucket&query=toy")).body.items).toMatchObject([
    { id: "{2}", is_public: true },
  ]);
  expect((await v1("repositories/search?provider=forgejo&query=garden")).body.items).toMatchObject([
    { id: "1", is_public: false },
  ]);
});

test("an agent server lists repositories too, and says when there is no token", async () => {
  await use("github");
  const { sessionKey } = server.addSandbox();
  const search = (query: string, key?: string) =>
    read(server.call("GET", `/api/git/repositories/search?${query}`, key === undefined ? {} : { key }));
  const page = await search("provider=github&limit=2", sessionKey!);
  expect(page.body).toMatchObject({
    items: [{ full_name: "ann/notes", is_public: false, main_branch: "main" }, { full_name: "ann/web.site" }],
    next_page_id: expect.any(String),
    missing_token: false,
  });
  const next = await search(`provider=github&limit=2&page_id=${encodeURIComponent(page.body.next_page_id)}`);
  expect(next.body).toMatchObject({ items: [{ full_name: "acme/widgets" }], next_page_id: null });
  const none = { status: 200, body: { items: [], next_page_id: null, missing_token: true } };
  expect(await search("provider=gitlab")).toEqual(none);
  expect(await search("provider=azure_devops")).toEqual(none);
  expect(await search("provider=github", strangerKey)).toEqual(none);
  expect((await search("provider=other")).status).toBe(422);
  expect((await search("provider=github&limit=101")).status).toBe(422);
});

const searches: [Known, string, string[]][] = [
  ["github", "s", ["acme/widgets", "ann/web.site", "ann/notes"]],
  ["github", "s&sort_order=stars-asc", ["ann/notes", "ann/web.site", "acme/widgets"]],
  ["github", "acme/wid", ["acme/widgets"]],
  ["github", "nobody/x", []],
  ["gitlab", "team", ["team/app", "team/sub/tool"]],
  ["bitbucket", "work/a", ["work/api"]],
  ["bitbucket", 'u"i', []],
  ["forgejo", "club", ["club/bot", "club/site"]],
  ["forgejo", "club/site", ["club/site"]],
];
test.each(searches)("at %s, a search for %s finds the expected repositories", async (name, query, found) => {
  await use(name);
  const { body } = await v1(
    `repositories/search?provider=${name}&query=${query.replaceAll("/", "%2F").replaceAll('"', "%22")}`,
  );
  expect(body.items.map((item: any) => item.full_name)).toEqual(found);
});

test("a repository's URL finds that repository, an unknown URL finds nothing", async () => {
  for (const [name, repository] of Object.entries({
    github: "acme/widgets",
    gitlab: "team/sub/tool",
    bitbucket: "work/api",
    forgejo: "club/bot",
  })) {
    await use(name as Known);
    const search = (path: string) =>
      v1(
        `repositories/search?provider=${name}&query=${encodeURIComponent(`${servers[name as Known]!.host}/${path}`)}`,
      );
    expect((await search(`${repository}.git`)).body.items).toMatchObject([{ full_name: repository }]);
    expect((await search("no/such")).body).toEqual({ items: [], next_page_id: null });
  }
});

const branchSearches: [Known, string, string, string[]][] = [
  ["github", "acme/widgets", "feature", ["feature/one", "feature/two"]],
  ["gitlab", "team/sub/tool", "fix", ["fix-1", "fix-2"]],
  ["bitbucket", "work/api", "topic", ["topic/a", "topic/b"]],
  ["forgejo", "club/site", "ed", ["Seeds", "beds"]],
];
test.each(branchSearches)(
  "branches at %s are searched page by page",
  async (name, repository, query, found) => {
    await use(name);
    const search = (more: string) =>
      v1(`branches/search?provider=${name}&repository=${encodeURIComponent(repository)}${more}`);
    const one = await search(`&query=${query}&limit=1`);
    expect(one.body.items.map((item: any) => item.name)).toEqual(found.slice(0, 1));
    expect(one.body.items[0]).toMatchObject({
      commit_sha: expect.stringMatching(/^[0-9a-f]{40}$/),
      protected: false,
    });
    const two = await search(`&query=${query}&limit=1&page_id=${encodeURIComponent(one.body.next_page_id)}`);
    expect([two.body.items.map((item: any) => item.name), two.body.next_page_id]).toEqual([
      found.slice(1),
      null,
    ]);
    const all = await search("&query=");
    expect(all.body.items.map((item: any) => item.name)).toContain("main");
    expect((await search("")).status).toBe(422);
    const missing = (repository: string) =>
      v1(`branches/search?provider=${name}&repository=${repository}&query=${query}`);
    expect((await missing("no%2Fsuch")).status).toBe(404);
    for (const bad of [
      "widgets",
      "a%2F..",
      "a%2F%2Fb",
      "%2F",
      "a%2Fb%3Fc",
      "a%2Fb%0D%0AX:1",
      "a%2F..%2F..%2Fuser",
    ]) {
      expect([bad, (await missing(bad)).status]).toEqual([bad, 400]);
    }
  },
);

test("open pull requests and assigned issues of all providers become tasks", async () => {
  const expected: [Known, string, string, number][] = [
    ["github", "acme/widgets", "ann/notes", 7],
    ["gitlab", "team/sub/tool", "team/app", 9],
    ["bitbucket", "work/api", "", 0],
    ["forgejo", "club/site", "club/site", 8],
  ];
  for (const [name, repo, issueRepo, issue] of expected) {
    await use(name);
    const { items } = (await v1("suggested-tasks/search")).body;
    const facts = items.map((item: any) => [item.git_provider, item.task_type, item.repo, item.issue_number]);
    expect(facts).toEqual([
      [name, "MERGE_CONFLICTS", repo, 1],
      [name, "FAILING_CHECKS", repo, 2],
      [name, "UNRESOLVED_COMMENTS", repo, 3],
      ...(name === "github" ? [[name, "UNRESOLVED_COMMENTS", repo, 4]] : []),
      ...(issue ? [[name, "OPEN_ISSUE", issueRepo, issue]] : []),
    ]);
  }
  await use("github", "gitlab");
  expect((await v1("suggested-tasks/search?limit=8")).body).toMatchObject({
    items: { length: 8 },
    next_page_id: expect.any(String),
  });
  servers.github!.refusal = { status: 500, body: {} };
  expect(
    (await v1("suggested-tasks/search")).body.items.every((item: any) => item.git_provider === "gitlab"),
  ).toBe(true);
});

test("the user and the organizations are read from the first working provider", async () => {
  await use("github");
  expect((await get("/api/v1/users/git-info")).body).toEqual({
    ...{ id: "5", login: "ann", avatar_url: "https://a.example/5", company: null, name: "Ann", email: null },
  });
  expect((await get("/api/v1/users/git-organizations")).body).toEqual({
    provider: "github",
    organizations: ["acme"],
  });
  await use("github", "gitlab");
  servers.github!.refusal = { status: 503, body: {} };
  expect((await get("/api/v1/users/git-info")).body).toMatchObject({
    id: "6",
    avatar_url: "",
    company: "Acme",
    email: "ann@example.com",
  });
  await use("bitbucket");
  expect((await get("/api/v1/users/git-info")).body).toMatchObject({
    id: "8",
    login: "ann",
    email: "ann@example.com",
  });
  await use("forgejo");
  expect((await get("/api/v1/users/git-info")).body).toMatchObject({ id: "7", name: null });
});

test("missing tokens, unsupported providers and invalid orders get clear errors", async () => {
  await use("github");
  const paths = [
    "git/installations/search?provider=github",
    "git/suggested-tasks/search",
    "users/git-info",
    "users/git-organizations",
  ];
  for (const path of [
    ...paths,
    "git/repositories/search?provider=github",
    "git/branches/search?provider=github&repository=a%2Fb&query=",
  ]) {
    const answer = await read(server.call("GET", `/api/v1/${path}`, { key: strangerKey }));
    expect(answer).toEqual({
      status: 401,
      body: { detail: "Git provider token required (such as GitHub)." },
    });
    expect((await server.call("GET", `/api/v1/${path}`, { key: null })).status).toBe(401);
  }
  expect((await v1("repositories/search?provider=gitlab")).status).toBe(401);
  for (const provider of ["azure_devops", "bitbucket_data_center", "enterprise_sso"]) {
    const { status, body } = await v1(`repositories/search?provider=${provider}`);
    expect([status, body.detail]).toEqual([400, expect.stringMatching(/not supported/)]);
  }
  expect((await v1("repositories/search?provider=github&sort_order=stars-desc")).status).toBe(400);
  for (const query of [
    "",
    "provider=none",
    "provider=github&limit=0",
    "provider=github&limit=101",
    "provider=github&query=x&sort_order=name",
  ]) {
    expect([query, (await v1(`repositories/search?${query}`)).status]).toEqual([query, 422]);
  }
  expect((await v1("repositories/search?provider=github&installation_id=..%2F..%2Fuser")).status).toBe(400);
  expect((await v1(`repositories/search?provider=github&query=${"x".repeat(1_001)}`)).status).toBe(422);
});

test("a provider's refusal becomes the caller's error, without a token in it or in the log", async () => {
  await use("github");
  const soon = String(Math.floor(Date.now() / 1000) + 120);
  const refusals: [object, number, string][] = [
    [
      { status: 401, body: { message: githubToken } },
      401,
      "Invalid token. Please make sure it is a valid github token.",
    ],
    [
      { status: 403, headers: { "x-ratelimit-remaining": "0", "x-ratelimit-reset": soon } },
      429,
      "takes no more requests",
    ],
    [{ status: 429, headers: { "retry-after": "17" } }, 429, "in 17 seconds"],
    [{ status: 429, headers: { "retry-after": "99999999999" } }, 429, "takes no more requests"],
    [{ status: 403, body: { message: githubToken } }, 403, "scopes"],
    [{ status: 500, body: githubToken }, 502, "status 500"],
    [{ status: 200, body: "<html>a login page</html>" }, 502, "does not answer like GitHub"],
    [{ status: 200, body: [{ id: "1", full_name: 5 }] }, 502, "does not answer like GitHub"],
    [{ status: 200, body: null }, 502, "does not answer like GitHub"],
    [{ status: 302, headers: { location: "http://169.254.169.254/" } }, 422, "private or reserved"],
  ];
  for (const [refusal, status, words] of refusals) {
    servers.github!.refusal = refusal;
    const answer = await server.call("GET", "/api/v1/git/repositories/search?provider=github");
    const text = await answer.text();
    expect([refusal, answer.status, text]).toEqual([refusal, status, expect.stringContaining(words)]);
    expect(text).not.toContain(githubToken);
    if (status === 429) expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
  }
  expect(server.logs.join("")).not.toContain(githubToken);
});

test("a token of the GitHub server is personal and has no installations", async () => {
  await use("github");
  servers.github!.refusal = {
    status: 403,
    body: { message: "You must authenticate with an access token authorized to a GitHub App" },
  };
  expect((await v1("installations/search?provider=github")).body).toEqual({ items: [], next_page_id: null });
});
