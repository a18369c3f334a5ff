import { Nullable, type Static } from "@sandpiper/wire";
import { type TSchema, Type } from "typebox";

/** The fields that are read from Bitbucket Cloud's responses. */

const Text = Type.String();
const Maybe = Type.Optional(Nullable(Text));
const Link = Type.Optional(Nullable(Type.Object({ href: Maybe })));

export function BitbucketPage<T extends TSchema>(value: T) {
  return Type.Object({ values: Type.Array(value), next: Maybe });
}

export const BitbucketUser = Type.Object({
  uuid: Text,
  account_id: Maybe,
  username: Maybe,
  nickname: Maybe,
  display_name: Maybe,
  links: Type.Optional(Type.Object({ avatar: Link })),
});
export const BitbucketEmails = BitbucketPage(
  Type.Object({ email: Text, is_primary: Type.Optional(Type.Boolean()) }),
);
export const BitbucketWorkspaces = BitbucketPage(Type.Object({ workspace: Type.Object({ slug: Text }) }));

export const BitbucketRepository = Type.Object({
  uuid: Text,
  full_name: Text,
  is_private: Type.Optional(Type.Boolean()),
  updated_on: Maybe,
  mainbranch: Type.Optional(Nullable(Type.Object({ name: Text }))),
});
export const BitbucketRepositories = BitbucketPage(BitbucketRepository);

export const BitbucketBranches = BitbucketPage(
  Type.Object({ name: Text, target: Type.Object({ hash: Text, date: Maybe }) }),
);

export const BitbucketPulls = BitbucketPage(
  Type.Object({
    id: Type.Integer(),
    title: Text,
    task_count: Type.Optional(Type.Integer()),
    updated_on: Maybe,
    destination: Type.Object({ repository: Type.Object({ full_name: Text }) }),
  }),
);
export const BitbucketDiffstat = BitbucketPage(Type.Object({ status: Maybe }));
export const BitbucketStatuses = BitbucketPage(Type.Object({ state: Maybe }));
export const BitbucketComments = BitbucketPage(
  Type.Object({
    deleted: Type.Optional(Type.Boolean()),
    parent: Type.Optional(Nullable(Type.Unknown())),
    inline: Type.Optional(Nullable(Type.Unknown())),
    resolution: Type.Optional(Nullable(Type.Unknown())),
  }),
);

export const BitbucketFolder = BitbucketPage(Type.Object({ path: Text, type: Text }));
export const BitbucketCommits = BitbucketPage(Type.Object({ date: Maybe }));

export type BitbucketPull = Static<typeof BitbucketPulls>["values"][number];
