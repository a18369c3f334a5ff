import { Nullable } from "@sandpiper/wire";
import { Type } from "typebox";

/** The fields that are read from GitHub's responses. */

const Text = Type.String();
const Maybe = Type.Optional(Nullable(Text));
const Count = Type.Optional(Nullable(Type.Integer()));

export const GithubUser = Type.Object({
  id: Type.Integer(),
  login: Text,
  avatar_url: Maybe,
  company: Maybe,
  name: Maybe,
  email: Maybe,
});

export const GithubRepository = Type.Object({
  id: Type.Integer(),
  full_name: Text,
  private: Type.Optional(Type.Boolean()),
  stargazers_count: Count,
  pushed_at: Maybe,
  default_branch: Maybe,
  owner: Type.Optional(Nullable(Type.Object({ type: Maybe }))),
});
export const GithubRepositories = Type.Array(GithubRepository);
export const GithubFound = Type.Object({ items: GithubRepositories });
export const GithubInstalled = Type.Object({ repositories: GithubRepositories });
export const GithubInstallations = Type.Object({
  installations: Type.Array(Type.Object({ id: Type.Integer() })),
});
export const GithubOrganizations = Type.Array(Type.Object({ login: Text }));

export const GithubBranches = Type.Array(
  Type.Object({ name: Text, commit: Type.Object({ sha: Text }), protected: Type.Optional(Type.Boolean()) }),
);
export const GithubRefs = Type.Object({
  repository: Nullable(
    Type.Object({
      refs: Nullable(
        Type.Object({
          nodes: Type.Array(
            Type.Object({
              name: Text,
              target: Nullable(Type.Object({ oid: Text, committedDate: Maybe })),
              branchProtectionRule: Type.Optional(Nullable(Type.Object({ id: Text }))),
            }),
          ),
          pageInfo: Type.Object({ hasNextPage: Type.Boolean(), endCursor: Nullable(Text) }),
        }),
      ),
    }),
  ),
});

const Nodes = <T extends Parameters<typeof Type.Array>[0]>(item: T) =>
  Type.Object({ nodes: Type.Array(Nullable(item)) });
const Subject = { number: Type.Integer(), title: Text, repository: Type.Object({ nameWithOwner: Text }) };
export const GithubPull = Type.Object({
  ...Subject,
  mergeable: Text,
  reviewDecision: Maybe,
  commits: Nodes(
    Type.Object({ commit: Type.Object({ statusCheckRollup: Nullable(Type.Object({ state: Text })) }) }),
  ),
  reviewThreads: Nodes(Type.Object({ isResolved: Type.Boolean() })),
});
export const GithubTasks = Type.Object({
  viewer: Type.Object({ pullRequests: Nodes(GithubPull) }),
  search: Nodes(Type.Partial(Type.Object(Subject))),
});

export const GithubCommits = Type.Array(
  Type.Object({ commit: Type.Object({ committer: Type.Optional(Nullable(Type.Object({ date: Maybe }))) }) }),
);
