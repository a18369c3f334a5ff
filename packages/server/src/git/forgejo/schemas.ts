import { Nullable } from "@sandpiper/wire";
import { Type } from "typebox";

/** The fields that are read from the responses of Forgejo and Gitea. */

const Text = Type.String();
const Maybe = Type.Optional(Nullable(Text));

export const ForgejoUser = Type.Object({
  id: Type.Integer(),
  login: Text,
  avatar_url: Maybe,
  full_name: Maybe,
  email: Maybe,
});
export const ForgejoOrganizations = Type.Array(
  Type.Object({ name: Type.Optional(Text), username: Type.Optional(Text) }),
);

export const ForgejoRepository = Type.Object({
  id: Type.Integer(),
  full_name: Text,
  private: Type.Optional(Type.Boolean()),
  stars_count: Type.Optional(Nullable(Type.Integer())),
  updated_at: Maybe,
  default_branch: Maybe,
});
export const ForgejoRepositories = Type.Array(ForgejoRepository);
export const ForgejoFound = Type.Object({ data: ForgejoRepositories });

export const ForgejoBranches = Type.Array(
  Type.Object({
    name: Text,
    protected: Type.Optional(Type.Boolean()),
    commit: Type.Object({ id: Text, timestamp: Maybe }),
  }),
);

export const ForgejoIssues = Type.Array(
  Type.Object({ number: Type.Integer(), title: Text, repository: Type.Object({ full_name: Text }) }),
);
export const ForgejoPull = Type.Object({
  mergeable: Type.Optional(Nullable(Type.Boolean())),
  head: Type.Object({ sha: Text }),
});
export const ForgejoStatus = Type.Object({ state: Maybe });
export const ForgejoReviews = Type.Array(
  Type.Object({
    state: Text,
    dismissed: Type.Optional(Type.Boolean()),
    stale: Type.Optional(Type.Boolean()),
  }),
);

export const ForgejoCommits = Type.Array(
  Type.Object({
    created: Maybe,
    commit: Type.Optional(Type.Object({ committer: Type.Optional(Nullable(Type.Object({ date: Maybe }))) })),
  }),
);
