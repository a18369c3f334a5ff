import { collectBehaviour, missingParts, type ProjectParts } from "@sandpiper/agent/behaviour/behaviour";
import { readBehaviour } from "@sandpiper/agent/behaviour/read";
import { trimTail } from "@sandpiper/core/trim";
import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import type { Behaviour, BehaviourPart } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Acceptances } from "../../users/api.ts";
import type { ProjectPlace } from "../api.ts";
import { loadPluginServers } from "./plugin-servers.ts";

/** What a conversation uses of its project. */
export type UsedParts = Omit<ProjectParts, "workingDir">;

const toBehaviour = ({ workingDir }: ProjectPlace, used: UsedParts) =>
  collectBehaviour({ ...used, workingDir: trimTail(workingDir, "/") || "/" });

/** The project of a conversation. */
export function toPlace(
  { userId, sandboxId, config }: Pick<ConversationRow, "userId" | "sandboxId" | "config">,
  plugins: readonly string[],
): ProjectPlace {
  const { workingDir, worktree } = config;
  return { userId, sandboxId, workingDir, plugins, worktreeOf: worktree?.repository };
}

export interface ProjectBehavioursDeps {
  acceptances: Pick<Acceptances, "record">;
}

/**
 * Finds what projects do by themselves before anything of them runs. From then on their sandboxes
 * get secrets only if their users have accepted it.
 */
export class ProjectBehaviours {
  readonly #deps: ProjectBehavioursDeps;

  constructor(deps: ProjectBehavioursDeps) {
    this.#deps = deps;
  }

  /**
   * Undefined when the project only describes. `used` was read of it and is about to be used: it
   * counts even if the files have changed since. Throws what `exec` throws.
   */
  async find(
    place: ProjectPlace,
    sandbox: CommandRunner,
    used: UsedParts = {},
  ): Promise<Behaviour | undefined> {
    const read = await this.#read(place, sandbox);
    return this.#record(place, [...read, ...missingParts(toBehaviour(place, used), read)]);
  }

  /**
   * Like `find`, for what is read again after the project's scripts ran. The returned function
   * records what `find` has not seen.
   */
  async findFirst(place: ProjectPlace, sandbox: CommandRunner): Promise<(used: UsedParts) => Promise<void>> {
    const read = await this.#read(place, sandbox);
    await this.#record(place, read);
    return async (used) => {
      const more = missingParts(toBehaviour(place, used), read);
      if (more.length > 0) await this.#record(place, [...read, ...more]);
    };
  }

  async #read({ workingDir, plugins }: ProjectPlace, sandbox: CommandRunner): Promise<BehaviourPart[]> {
    const servers = await loadPluginServers(sandbox, plugins);
    return readBehaviour(sandbox, { workingDir, plugins, servers });
  }

  #record(
    { userId, sandboxId, workingDir, origin, worktreeOf }: ProjectPlace,
    parts: readonly BehaviourPart[],
  ): Promise<Behaviour | undefined> {
    return this.#deps.acceptances.record({ userId, sandboxId, workingDir, origin, worktreeOf, parts });
  }
}
