import { type Answer, type Asked, cut, type ProviderServer, serveProvider } from "./serve.ts";

export const bitbucketToken = "ann@example.com:app-password-for-bitbucket";

const repository = (id: number, full_name: string, change: object = {}) => ({
  ...{
    uuid: `{${id}}`,
    full_name,
    is_private: true,
    updated_on: `2026-01-0${id}T00:00:00Z`,
    mainbranch: { name: "main" },
    ...change,
  },
});
const repositories = [
  repository(1, "work/api"),
  repository(2, "play/toy", { is_private: false }),
  repository(3, "work/ui"),
];
const branches = ["main", "topic/a", "topic/b"].map((name) => ({
  name,
  target: { hash: "cd".repeat(20), date: "2026-01-05T00:00:00Z" },
}));
const pulls = [1, 2, 3, 4].map((id) => ({
  ...{ id, title: `Pull ${id}`, task_count: 0, updated_on: `2026-01-0${9 - id}T00:00:00Z` },
  destination: { repository: { full_name: "work/api" } },
}));
const problems: Record<string, unknown[]> = {
  "/1/diffstat": [{ status: "merge conflict" }],
  "/2/statuses": [{ state: "SUCCESSFUL" }, { state: "FAILED" }],
  "/3/comments": [{ inline: { path: "a" }, resolution: null, deleted: false }],
  "/4/comments": [
    { inline: { path: "a" }, resolution: { type: "resolved" } },
    { deleted: true, inline: {} },
  ],
};

/** The used part of Bitbucket Cloud, below `/2.0`. */
export function serveBitbucket(): Promise<ProviderServer> {
  const authorization = `Basic ${btoa(bitbucketToken)}`;
  return serveProvider(authorization, (asked) => rest({ ...asked, path: asked.path.replace(/^\/2\.0/, "") }));
}

function rest(asked: Asked): Answer | undefined {
  const { path, query } = asked;
  if (path === "/user") {
    const links = { avatar: { href: "https://a.example/8" } };
    return { body: { uuid: "{ann}", account_id: "8", username: "ann", display_name: "Ann", links } };
  }
  if (path === "/user/emails") return { body: { values: [{ email: "ann@example.com", is_primary: true }] } };
  if (path === "/user/workspaces")
    return { body: { values: ["work", "play"].map((slug) => ({ workspace: { slug } })) } };
  if (path === `/workspaces/work/pullrequests/${encodeURIComponent("{ann}")}`)
    return { body: { values: pulls } };
  if (path.startsWith("/workspaces/play/")) return { body: { values: [] } };
  const [, workspace] = /^\/repositories\/([^/]+)$/.exec(path) ?? [];
  if (workspace)
    return paged(
      named(repositories, query, (one) => one.full_name.split("/")[1]!).filter((one) =>
        one.full_name.startsWith(`${workspace}/`),
      ),
      asked,
    );
  const [, name, rest] = /^\/repositories\/([^/]+\/[^/]+)(.*)$/.exec(path) ?? [];
  const found = repositories.find(({ full_name }) => full_name === name);
  if (!found) return undefined;
  if (rest === "") return { body: found };
  if (rest === "/refs/branches")
    return paged(
      named(branches, query, (one) => one.name),
      asked,
    );
  if (rest === "/commits") return { body: { values: [{ date: "2026-02-03T04:05:06+00:00" }] } };
  if (rest!.startsWith("/pullrequests"))
    return { body: { values: problems[rest!.slice("/pullrequests".length)] ?? [] } };
  const folder = ".openhands/skills";
  if (rest === `/src/main/${folder}/`) {
    return {
      body: {
        values: [
          { path: `${folder}/a.md`, type: "commit_file" },
          { path: `${folder}/sub`, type: "commit_directory" },
        ],
      },
    };
  }
  return rest === `/src/main/${folder}/a.md` ? { body: "Be brief." } : undefined;
}

/** Bitbucket's query language as far as `name ~ "text"`. */
function named<T>(items: readonly T[], query: URLSearchParams, nameOf: (item: T) => string): T[] {
  const q = query.get("q");
  if (q === null) return [...items];
  const text = JSON.parse(/^name ~ (".*")$/.exec(q)![1]!);
  return items.filter((item) => nameOf(item).includes(text));
}

function paged(items: readonly unknown[], { path, query }: Asked): Answer {
  const { items: values, page, more } = cut(items, query, "pagelen");
  return {
    body: { values, page, ...(more && { next: `https://api.bitbucket.org/2.0${path}?page=${page + 1}` }) },
  };
}
