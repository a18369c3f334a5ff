import { PlatformError } from "@sandpiper/core/errors";
import { maxWorkspaces, type SavedWorkspaces, type Workspace, type WorkspaceParent } from "@sandpiper/wire";
import type { SettingsRepository } from "./settings/repository.ts";

const none: SavedWorkspaces = Object.freeze({ workspaces: [], workspaceParents: [] });

/** Saved folders in the settings documents, one per path (agent-server.md section 9). */
export class StoredWorkspaces {
  readonly #documents: SettingsRepository;

  constructor(documents: SettingsRepository) {
    this.#documents = documents;
  }

  async list(userId: string): Promise<SavedWorkspaces> {
    return (await this.#documents.get(userId)).workspaces ?? none;
  }

  /** Adds or replaces folders by path; returns all. Throws InvalidParameter for too many. */
  add(
    userId: string,
    added: { workspaces?: readonly Workspace[]; parents?: readonly WorkspaceParent[] },
  ): Promise<SavedWorkspaces> {
    const { workspaces = [], parents = [] } = added;
    return this.#change(userId, (saved) => ({
      workspaces: mergeByPath(saved.workspaces, workspaces.map(toWorkspace)),
      workspaceParents: mergeByPath(saved.workspaceParents, parents.map(toParent)),
    }));
  }

  /** Removes a folder; false when there is none. */
  async remove(userId: string, kind: keyof SavedWorkspaces, path: string): Promise<boolean> {
    let before = 0;
    const { [kind]: left } = await this.#change(userId, (saved) => {
      before = saved[kind].length;
      return { ...saved, [kind]: saved[kind].filter((one) => one.path !== path) };
    });
    return left.length < before;
  }

  #change(userId: string, change: (saved: SavedWorkspaces) => SavedWorkspaces): Promise<SavedWorkspaces> {
    return this.#documents.change(userId, (document) => {
      const workspaces = change(document.workspaces ?? none);
      return { document: { ...document, workspaces }, result: workspaces };
    });
  }
}

function mergeByPath<Item extends { path: string }>(saved: readonly Item[], added: readonly Item[]): Item[] {
  const all = [...new Map([...saved, ...added].map((item) => [item.path, item])).values()];
  if (all.length > maxWorkspaces) throw new PlatformError("TooManyWorkspaces", { max: maxWorkspaces });
  return all;
}

/** Drops additional fields of a request body. */
function toWorkspace({ id, name, path, parentPath }: Workspace): Workspace {
  return { id, name, path, ...(parentPath != null && { parentPath }) };
}

function toParent({ id, name, path }: WorkspaceParent): WorkspaceParent {
  return { id, name, path };
}
