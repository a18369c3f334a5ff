import { type Answer, type Asked, linked, type ProviderServer, serveProvider } from "./serve.ts";

export const githubToken = "ghp_token-for-the-github-server";

const repository = (id: number, full_name: string, change: object = {}) => ({
  ...{
    id,
    full_name,
    private: false,
    stargazers_count: id,
    pushed_at: `2026-01-0${id}T00:00:00Z`,
    default_branch: "main",
  },
  ...{
    owner: { login: full_name.split("/")[0], type: full_name.startsWith("acme") ? "Organization" : "User" },
    ...change,
  },
});
const repositories = [
  repository(1, "ann/notes", { private: true }),
  repository(2, "ann/web.site"),
  repository(3, "acme/widgets"),
];
const branches = ["main", "feature/one", "feature/two"].map((name, index) => ({
  ...{ name, commit: { sha: `${index}`.repeat(40), url: "…" }, protected: name === "main" },
}));
const skill = "---\nname: deploy\ntriggers:\n- deploy\n- ship it\n---\nRun the deploy script.\n";
const files: Record<string, string> = {
  "deploy.md": skill,
  "README.md": "About this folder",
  "logo.png": "x",
};

const pull = (number: number, change: object) => ({
  ...{
    number,
    title: `Pull ${number}`,
    repository: { nameWithOwner: "acme/widgets" },
    mergeable: "MERGEABLE",
    reviewDecision: null,
  },
  ...{
    commits: { nodes: [{ commit: { statusCheckRollup: null } }] },
    reviewThreads: { nodes: [] },
    ...change,
  },
});
const tasks = {
  viewer: {
    pullRequests: {
      nodes: [
        pull(1, { mergeable: "CONFLICTING" }),
        pull(2, { commits: { nodes: [{ commit: { statusCheckRollup: { state: "FAILURE" } } }] } }),
        pull(3, { reviewThreads: { nodes: [{ isResolved: true }, { isResolved: false }] } }),
        pull(4, { reviewDecision: "CHANGES_REQUESTED" }),
        pull(5, {}),
        null,
      ],
    },
  },
  search: { nodes: [{ number: 7, title: "An issue", repository: { nameWithOwner: "ann/notes" } }, {}, null] },
};

/** The used part of GitHub Enterprise: REST below `/api/v3`, GraphQL at `/api/graphql`. */
export function serveGithub(): Promise<ProviderServer> {
  return serveProvider(`Bearer ${githubToken}`, (asked) => {
    if (asked.path === "/api/graphql") return graphql(asked);
    return rest({ ...asked, path: asked.path.replace(/^\/api\/v3/, "") });
  });
}

function rest(asked: Asked): Answer | undefined {
  const { path, query } = asked;
  if (path === "/user")
    return {
      body: {
        id: 5,
        login: "ann",
        avatar_url: "https://a.example/5",
        company: null,
        name: "Ann",
        email: null,
      },
    };
  if (path === "/user/orgs") return { body: [{ login: "acme" }] };
  if (path === "/user/repos") return linked(repositories, asked, "per_page");
  if (path === "/user/installations")
    return { body: { total_count: 2, installations: [{ id: 11 }, { id: 12 }] } };
  if (path === "/user/installations/12/repositories") {
    return linked([repositories[2]], asked, "per_page", (some) => ({ total_count: 1, repositories: some }));
  }
  if (path === "/search/repositories") return search(asked);
  const [, name, rest] = /^\/repos\/([^/]+\/[^/]+)(.*)$/.exec(path) ?? [];
  const found = repositories.find(({ full_name }) => full_name === name);
  if (!found) return undefined;
  if (rest === "") return { body: found };
  if (rest === "/branches") return linked(branches, asked, "per_page");
  if (rest === "/commits")
    return { body: query.get("path") ? [{ commit: { committer: { date: "2026-02-03T04:05:06Z" } } }] : [] };
  return contents(rest!.replace("/contents/", ""), name!);
}

function contents(path: string, repository: string): Answer | undefined {
  if (repository !== "acme/widgets" || !path.startsWith(".openhands/skills")) return undefined;
  const folder = ".openhands/skills";
  if (path === folder)
    return {
      body: [...Object.keys(files), "sub"].map((name) => ({
        name,
        path: `${folder}/${name}`,
        type: name === "sub" ? "dir" : "file",
      })),
    };
  const content = files[path.slice(folder.length + 1)];
  if (content === undefined) return undefined;
  const base64 = Buffer.from(content).toString("base64").replaceAll(/.{60}/g, "$&\n");
  return { body: { type: "file", encoding: "base64", content: base64 } };
}

/** Finds by a part of the name among the repositories of the owners that the query names. */
function search(asked: Asked): Answer {
  const q = asked.query.get("q")!;
  const owners = [...q.matchAll(/(?:user|org):(\S+)/g)].map((match) => match[1]!);
  const text = q.replaceAll(/\S+:\S+/g, "").trim();
  if (owners.includes("nobody")) return { status: 422, body: { message: "Validation Failed" } };
  const found = repositories.filter(
    ({ full_name }) => owners.includes(full_name.split("/")[0]!) && full_name.split("/")[1]!.includes(text),
  );
  const sign = asked.query.get("order") === "asc" ? 1 : -1;
  found.sort((a, b) => sign * (a.stargazers_count - b.stargazers_count));
  return linked(found, asked, "per_page", (items) => ({ total_count: found.length, items }));
}

function graphql({ body }: Asked): Answer {
  const { query, variables } = JSON.parse(body);
  if (query.includes("viewer")) return { body: { data: tasks } };
  if (`${variables.owner}/${variables.name}` !== "acme/widgets") {
    return {
      body: {
        data: { repository: null },
        errors: [{ type: "NOT_FOUND", path: ["repository"], message: "…" }],
      },
    };
  }
  const found = branches.filter(({ name }) => name.includes(variables.query));
  const start = variables.after === null ? 0 : Number(Buffer.from(variables.after, "base64").toString()) || 0;
  const nodes = found
    .slice(start, start + variables.first)
    .map(({ name, commit, protected: isProtected }) => ({
      ...{
        name,
        target: { oid: commit.sha, committedDate: "2026-01-05T00:00:00Z" },
        branchProtectionRule: isProtected ? { id: "x" } : null,
      },
    }));
  const end = start + nodes.length;
  return {
    body: {
      data: {
        repository: {
          refs: { nodes, pageInfo: { hasNextPage: end < found.length, endCursor: btoa(String(end)) } },
        },
      },
    },
  };
}
