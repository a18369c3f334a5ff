import { type Static, Type } from "typebox";
import { Nullable, Page, StringEnum } from "../common/schema.ts";

/** Services that host repositories (app-server.md section 2.1). */
export const providerTypes = [
  "github",
  "gitlab",
  "bitbucket",
  "bitbucket_data_center",
  "forgejo",
  "azure_devops",
  "enterprise_sso",
] as const;
export const ProviderType = StringEnum(providerTypes);
export type ProviderType = (typeof providerTypes)[number];

/** Orders of a search for repositories (app-server.md section 7). */
export const repositoryOrders = [
  "stars-desc",
  "stars-asc",
  "forks-desc",
  "forks-asc",
  "updated-desc",
  "updated-asc",
] as const;
export const RepositoryOrder = StringEnum(repositoryOrders);
export type RepositoryOrder = (typeof repositoryOrders)[number];

/** Kinds of suggested tasks. `CREATE_MICROAGENT` is a legacy kind that only clients send. */
export const taskTypes = [
  "MERGE_CONFLICTS",
  "FAILING_CHECKS",
  "UNRESOLVED_COMMENTS",
  "OPEN_ISSUE",
  "OPEN_PR",
  "CREATE_MICROAGENT",
] as const;
export const TaskType = StringEnum(taskTypes);

/** The user behind a provider's token (app-server.md section 7, legacy-gui.md section 8). */
export const UserGitInfo = Type.Object({
  id: Type.String(),
  login: Type.String(),
  avatar_url: Type.String(),
  company: Nullable(Type.String()),
  name: Nullable(Type.String()),
  email: Nullable(Type.String()),
});

/** Organizations, groups or workspaces of that user. */
export const GitOrganizationsResponse = Type.Object({
  provider: ProviderType,
  organizations: Type.Array(Type.String()),
});

/** Only legacy lists have `link_header`: it gives clients the number of the next page. */
export const Repository = Type.Object({
  id: Type.String(),
  full_name: Type.String(),
  git_provider: ProviderType,
  is_public: Type.Boolean(),
  stargazers_count: Type.Optional(Nullable(Type.Integer())),
  link_header: Type.Optional(Nullable(Type.String())),
  pushed_at: Type.Optional(Nullable(Type.String())),
  owner_type: Type.Optional(Nullable(StringEnum(["user", "organization"]))),
  main_branch: Type.Optional(Nullable(Type.String())),
});

export const Branch = Type.Object({
  name: Type.String(),
  commit_sha: Type.String(),
  protected: Type.Boolean(),
  last_push_date: Type.Optional(Nullable(Type.String())),
});

/** An open pull request or issue that waits for the user. */
export const SuggestedTask = Type.Object({
  git_provider: ProviderType,
  task_type: TaskType,
  repo: Type.String(),
  issue_number: Type.Integer(),
  title: Type.String(),
});

export const InstallationPage = Page(Type.String());
export const RepositoryPage = Page(Repository);

/** Answer of the agent server's `GET /api/git/repositories/search`. */
export const ProviderRepositoryPage = Type.Object({
  items: Type.Array(Repository),
  next_page_id: Nullable(Type.String()),
  missing_token: Type.Boolean({ default: false }),
});
export const BranchPage = Page(Branch);
export const SuggestedTaskPage = Page(SuggestedTask);

/** Answer of the legacy `GET /api/user/repository/branches` (legacy-gui.md section 8). */
export const PaginatedBranches = Type.Object({
  branches: Type.Array(Branch),
  has_next_page: Type.Boolean(),
  current_page: Type.Integer(),
  per_page: Type.Integer(),
});

/**
 * A skill file of a repository in the legacy page of microagents. `created_at` is the folder's last
 * commit.
 */
export const MicroagentResponse = Type.Object({
  name: Type.String(),
  path: Type.String(),
  created_at: Type.String({ format: "date-time" }),
});

export const MicroagentContentResponse = Type.Object({
  content: Type.String(),
  path: Type.String(),
  triggers: Type.Array(Type.String()),
  git_provider: Type.Optional(Nullable(Type.String())),
});

export type UserGitInfo = Static<typeof UserGitInfo>;
export type Repository = Static<typeof Repository>;
export type Branch = Static<typeof Branch>;
export type SuggestedTask = Static<typeof SuggestedTask>;
export type MicroagentResponse = Static<typeof MicroagentResponse>;
export type MicroagentContentResponse = Static<typeof MicroagentContentResponse>;
