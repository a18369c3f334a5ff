import { Nullable } from "@sandpiper/wire";
import { Type } from "typebox";

/** The fields that are read from GitLab's responses. */

const Text = Type.String();
const Maybe = Type.Optional(Nullable(Text));
const Count = Type.Optional(Nullable(Type.Integer()));

export const GitlabUser = Type.Object({
  id: Type.Integer(),
  username: Text,
  avatar_url: Maybe,
  organization: Maybe,
  name: Maybe,
  email: Maybe,
});

export const GitlabProject = Type.Object({
  id: Type.Integer(),
  path_with_namespace: Text,
  visibility: Maybe,
  star_count: Count,
  last_activity_at: Maybe,
  default_branch: Maybe,
  namespace: Type.Optional(Nullable(Type.Object({ kind: Maybe }))),
});
export const GitlabProjects = Type.Array(GitlabProject);
export const GitlabGroups = Type.Array(Type.Object({ full_path: Text }));

export const GitlabBranches = Type.Array(
  Type.Object({
    name: Text,
    protected: Type.Optional(Type.Boolean()),
    commit: Type.Object({ id: Text, committed_date: Maybe }),
  }),
);

export const GitlabMergeRequest = Type.Object({
  iid: Text,
  title: Text,
  conflicts: Type.Optional(Nullable(Type.Boolean())),
  project: Type.Object({ fullPath: Text }),
  headPipeline: Type.Optional(Nullable(Type.Object({ status: Text }))),
  resolvableDiscussionsCount: Count,
  resolvedDiscussionsCount: Count,
});
export const GitlabTasks = Type.Object({
  currentUser: Nullable(
    Type.Object({ authoredMergeRequests: Nullable(Type.Object({ nodes: Type.Array(GitlabMergeRequest) })) }),
  ),
});
export const GitlabIssues = Type.Array(
  Type.Object({ iid: Type.Integer(), title: Text, references: Type.Object({ full: Text }) }),
);

export const GitlabTree = Type.Array(Type.Object({ name: Text, path: Text, type: Text }));
export const GitlabCommits = Type.Array(Type.Object({ committed_date: Maybe }));
