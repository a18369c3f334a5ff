import type { GrepAction, GrepObservation } from "@sandpiper/wire";
import { Type } from "typebox";
import { toolDefinition } from "./definition.ts";
import { findFiles, pathMatcher, searchFolder } from "./search/find-files.ts";
import type { Tool } from "./tool.ts";

const description = `Finds files whose text holds a pattern, the last changed first, 100 at most. It gives their paths; view a file to see the places.

- pattern is an extended regular expression as grep -E takes it; upper and lower case are the same.
- include limits the search to files whose path matches a pattern such as "*.ts" or "src/**/*.py".
- path is the folder to search in; default is the working directory. Folders named .git and node_modules are left out.`;

/** Finds files by text (agent-behaviour.md section 14). */
export const grepTool: Tool<GrepAction, GrepObservation> = {
  name: "grep",
  description,
  definition: toolDefinition("grep", "Grep", description, "readOnly", "idempotent"),
  parameters: Type.Object({
    pattern: Type.String({ minLength: 1, maxLength: 2000, description: "Extended regular expression." }),
    path: Type.Optional(Type.String({ maxLength: 4000, description: "Folder to search in." })),
    include: Type.Optional(Type.String({ maxLength: 500, description: 'Which files, for example "*.ts".' })),
  }),
  actionKind: "GrepAction",
  idempotent: true,
  readOnly: true,
  resources: () => [],
  async run({ pattern, path, include }, context) {
    const search_path = searchFolder(context, path);
    const passes = include ? pathMatcher(include) : () => true;
    const { files, truncated, ...found } = await findFiles(context, search_path, passes, pattern);
    const filter = include ? { include_pattern: include } : {};
    return { kind: "GrepObservation", pattern, search_path, ...filter, ...found, matches: files, truncated };
  },
};
