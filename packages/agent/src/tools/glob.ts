import type { GlobAction, GlobObservation } from "@sandpiper/wire";
import { Type } from "typebox";
import { toolDefinition } from "./definition.ts";
import { findFiles, pathMatcher, searchFolder } from "./search/find-files.ts";
import type { Tool } from "./tool.ts";

const description = `Finds files by a pattern of their path, the last changed first, 100 at most.

- "**/*.ts" finds them in every folder, "src/*.ts" directly in src, "*.{md,txt}" by either ending in every folder.
- path is the folder to search in; default is the working directory. Folders named .git and node_modules are left out.`;

/** Finds files by name (agent-behaviour.md section 14). */
export const globTool: Tool<GlobAction, GlobObservation> = {
  name: "glob",
  description,
  definition: toolDefinition("glob", "Glob", description, "readOnly", "idempotent"),
  parameters: Type.Object({
    pattern: Type.String({ minLength: 1, maxLength: 500, description: 'For example "**/*.py".' }),
    path: Type.Optional(Type.String({ maxLength: 4000, description: "Folder to search in." })),
  }),
  actionKind: "GlobAction",
  idempotent: true,
  readOnly: true,
  resources: () => [],
  async run({ pattern, path }, context) {
    const search_path = searchFolder(context, path);
    const found = await findFiles(context, search_path, pathMatcher(pattern));
    return { kind: "GlobObservation", pattern, search_path, ...found };
  },
};
