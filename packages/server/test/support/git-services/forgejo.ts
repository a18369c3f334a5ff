import { type Answer, type Asked, linked, type ProviderServer, serveProvider } from "./serve.ts";

export const forgejoToken = "token-for-the-forgejo-server";

const repository = (id: number, full_name: string, change: object = {}) => ({
  ...{
    id,
    full_name,
    private: false,
    stars_count: id,
    updated_at: `2026-01-0${id}T00:00:00Z`,
    default_branch: "main",
    ...change,
  },
});
const repositories = [
  repository(1, "ann/garden", { private: true }),
  repository(2, "club/site"),
  repository(3, "club/bot"),
];
const branches = ["main", "Seeds", "beds"].map((name) => ({
  ...{ name, protected: name === "main", commit: { id: "ef".repeat(20), timestamp: "2026-01-05T00:00:00Z" } },
}));
const issue = (number: number, title: string) => ({ number, title, repository: { full_name: "club/site" } });

/** The used part of Forgejo, below `/api/v1`. */
export function serveForgejo(): Promise<ProviderServer> {
  return serveProvider(`token ${forgejoToken}`, (asked) =>
    rest({ ...asked, path: asked.path.replace(/^\/api\/v1/, "") }),
  );
}

function rest(asked: Asked): Answer | undefined {
  const { path, query } = asked;
  if (path === "/user")
    return {
      body: {
        id: 7,
        login: "ann",
        avatar_url: "https://a.example/7",
        full_name: "",
        email: "ann@example.com",
      },
    };
  if (path === "/user/orgs") return { body: [{ id: 1, name: "club", username: "club" }] };
  if (path === "/user/repos") return linked(repositories, asked, "limit");
  if (path === "/orgs/club/repos") return linked(repositories.slice(1), asked, "limit");
  if (path === "/repos/search") {
    const found = repositories.filter(({ full_name }) => full_name.includes(query.get("q")!));
    if (query.get("order") === "desc") found.reverse();
    return linked(found, asked, "limit", (data) => ({ ok: true, data }));
  }
  if (path === "/repos/issues/search") {
    const pulls = query.get("type") === "pulls" && query.get("created") === "true";
    const issues = query.get("type") === "issues" && query.get("assigned") === "true";
    return {
      body: pulls
        ? [1, 2, 3, 4, 5].map((number) => issue(number, `Pull ${number}`))
        : issues
          ? [issue(8, "An issue")]
          : [],
    };
  }
  const [, name, rest] = /^\/repos\/([^/]+\/[^/]+)(.*)$/.exec(path) ?? [];
  const found = repositories.find(({ full_name }) => full_name === name);
  if (!found) return undefined;
  if (rest === "") return { body: found };
  if (rest === "/branches") return linked(branches, asked, "limit");
  if (rest === "/commits") return { body: [{ created: "2026-02-03T04:05:06Z" }] };
  const [, number] = /^\/pulls\/(\d)$/.exec(rest!) ?? [];
  // The repository's owner took the fifth one back.
  if (number === "5") return undefined;
  if (number) return { body: { mergeable: number !== "1", head: { sha: `sha-${number}` } } };
  if (rest!.endsWith("/status"))
    return { body: { state: rest === "/commits/sha-2/status" ? "failure" : "success" } };
  if (rest!.endsWith("/reviews"))
    return { body: [{ state: "REQUEST_CHANGES", dismissed: false, stale: rest !== "/pulls/3/reviews" }] };
  if (rest === "/contents/.openhands/skills")
    return { body: [{ name: "a.md", path: ".openhands/skills/a.md", type: "file" }] };
  if (rest === "/contents/.openhands/skills/a.md")
    return { body: { type: "file", encoding: "base64", content: btoa("Be kind.") } };
  return undefined;
}
