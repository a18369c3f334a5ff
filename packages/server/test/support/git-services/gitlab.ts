import { type Answer, type Asked, cut, type ProviderServer, serveProvider } from "./serve.ts";

export const gitlabToken = "glpat-token-for-the-gitlab-server";

const project = (id: number, path_with_namespace: string, change: object = {}) => ({
  ...{
    id,
    path_with_namespace,
    visibility: "public",
    star_count: id,
    last_activity_at: `2026-01-0${id}T00:00:00Z`,
    default_branch: "main",
  },
  ...{ namespace: { kind: path_with_namespace.startsWith("team") ? "group" : "user" }, ...change },
});
const projects = [
  project(1, "ann/notes", { visibility: "private" }),
  project(2, "team/sub/tool"),
  project(3, "team/app"),
];
const branches = ["main", "fix-1", "fix-2"].map((name) => ({
  ...{
    name,
    protected: name === "main",
    commit: { id: "ab".repeat(20), committed_date: "2026-01-05T00:00:00Z" },
  },
}));
const request = (iid: string, change: object) => ({
  ...{
    iid,
    title: `Request ${iid}`,
    conflicts: false,
    project: { fullPath: "team/sub/tool" },
    headPipeline: null,
  },
  ...{ resolvableDiscussionsCount: 0, resolvedDiscussionsCount: 0, ...change },
});
const nodes = [
  request("1", { conflicts: true }),
  request("2", { headPipeline: { status: "FAILED" } }),
  request("3", { resolvableDiscussionsCount: 2, resolvedDiscussionsCount: 1 }),
  request("4", { headPipeline: { status: "SUCCESS" } }),
];

/** The used part of GitLab: REST below `/api/v4`, GraphQL at `/api/graphql`. */
export function serveGitlab(): Promise<ProviderServer> {
  return serveProvider(`Bearer ${gitlabToken}`, (asked) => {
    if (asked.path === "/api/graphql")
      return { body: { data: { currentUser: { authoredMergeRequests: { nodes } } } } };
    return rest({ ...asked, path: asked.path.replace(/^\/api\/v4/, "") });
  });
}

function rest(asked: Asked): Answer | undefined {
  const { path, query } = asked;
  if (path === "/user")
    return {
      body: {
        id: 6,
        username: "ann",
        avatar_url: null,
        organization: "Acme",
        name: "Ann",
        email: "ann@example.com",
      },
    };
  if (path === "/groups") return { body: [{ id: 1, full_path: "team" }] };
  if (path === "/issues")
    return { body: [{ iid: 9, title: "An issue", references: { full: "team/app#9" } }] };
  if (path === "/projects" || path === "/groups/team/projects") {
    const words = query.get("search") ?? "";
    const found = projects.filter(
      ({ path_with_namespace: name }) =>
        name.includes(words) && (path === "/projects" || name.startsWith("team/")),
    );
    return paged(query.get("sort") === "desc" ? found.reverse() : found, query);
  }
  const [, id, rest] = /^\/projects\/([^/]+)(.*)$/.exec(path) ?? [];
  const found = projects.find(({ path_with_namespace: name }) => name === decodeURIComponent(id ?? ""));
  if (!found) return undefined;
  if (rest === "") return { body: found };
  if (rest === "/repository/branches")
    return paged(
      branches.filter(({ name }) => name.includes(query.get("search") ?? "")),
      query,
    );
  if (rest === "/repository/commits") return { body: [{ committed_date: "2026-02-03T04:05:06.000+01:00" }] };
  if (rest === "/repository/tree") {
    const folder = ".openhands/microagents";
    return query.get("path") === folder
      ? { body: [{ name: "style.md", path: `${folder}/style.md`, type: "blob" }] }
      : undefined;
  }
  return rest === `/repository/files/${encodeURIComponent(".openhands/microagents/style.md")}/raw`
    ? { body: "Use short names." }
    : undefined;
}

function paged(items: readonly unknown[], query: URLSearchParams): Answer {
  const { items: some, page, more } = cut(items, query, "per_page");
  return { headers: { "x-next-page": more ? String(page + 1) : "" }, body: some };
}
