import { type Static, Type } from "typebox";
import { Nullable } from "../common/schema.ts";

/** Most saved folders of a user, of each kind. */
export const maxWorkspaces = 200;

const text = (maxLength: number) => Type.String({ minLength: 1, maxLength });

/** A folder that a user works in often (agent-server.md section 9). */
export const Workspace = Type.Object({
  id: text(256),
  name: text(256),
  path: text(4_000),
  parentPath: Type.Optional(Nullable(Type.String({ maxLength: 4_000 }))),
});

/** A folder whose subfolders are workspaces. */
export const WorkspaceParent = Type.Object({ id: text(256), name: text(256), path: text(4_000) });

export const SavedWorkspaces = Type.Object({
  workspaces: Type.Array(Workspace),
  workspaceParents: Type.Array(WorkspaceParent),
});

export const AddWorkspaces = Type.Object({ workspaces: Type.Array(Workspace, { maxItems: maxWorkspaces }) });
export const AddWorkspaceParents = Type.Object({
  parents: Type.Array(WorkspaceParent, { maxItems: maxWorkspaces }),
});

/** Answer of deletions. */
export const Deleted = Type.Object({ deleted: Type.Boolean() });

export type Workspace = Static<typeof Workspace>;
export type WorkspaceParent = Static<typeof WorkspaceParent>;
export type SavedWorkspaces = Static<typeof SavedWorkspaces>;
