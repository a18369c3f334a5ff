import { Nullable } from "@sandpiper/wire";
import { Type } from "typebox";
import type { Connection } from "./connection.ts";
import { orElse } from "./or-else.ts";
import type { GitProvider } from "./provider.ts";
import { toFilePath, toRepositoryPath } from "./repository-name.ts";

const Entries = Type.Union([
  Type.Array(Type.Object({ name: Type.String(), path: Type.String(), type: Type.String() })),
  Type.Object({ type: Type.String() }),
]);
const Text = Type.Optional(Nullable(Type.String()));
/** An array means that the path is a folder. */
const File = Type.Union([Type.Object({ encoding: Text, content: Text }), Type.Array(Type.Unknown())]);

/** Reads folders and files by the `contents` routes, which GitHub and Forgejo share. */
export function contentsApi(connection: Connection): Pick<GitProvider, "folder" | "file"> {
  const read = async <T extends typeof Entries | typeof File>(form: T, repository: string, path: string) => {
    const asked = connection.get(form, `/repos/${toRepositoryPath(repository)}/contents/${toFilePath(path)}`);
    return (await orElse(asked, undefined, ["RepositoryNotFound"]))?.value;
  };
  return {
    async folder(repository, path) {
      const entries = await read(Entries, repository, path);
      return Array.isArray(entries)
        ? entries
            .filter(({ type }) => type === "file")
            .map((entry) => ({ name: entry.name, path: entry.path }))
        : [];
    },
    async file(repository, path) {
      const file = await read(File, repository, path);
      if (!file || Array.isArray(file)) return undefined;
      return file.encoding === "base64"
        ? Buffer.from(file.content ?? "", "base64").toString("utf8")
        : undefined;
    },
  };
}
