import { readBehaviour } from "@sandpiper/agent/behaviour/read";
import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import type { Behaviour } from "@sandpiper/wire";
import type { Acceptances } from "../../users/api.ts";
import type { ProjectPlace } from "../api.ts";
import { loadPluginServers } from "./plugin-servers.ts";

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

  /** Undefined when the project only describes. Throws what `exec` throws. */
  async find(place: ProjectPlace, sandbox: CommandRunner): Promise<Behaviour | undefined> {
    const { userId, sandboxId, workingDir, plugins, origin } = place;
    const servers = await loadPluginServers(sandbox, plugins);
    const found = await readBehaviour(sandbox, { workingDir, plugins, servers });
    const { parts } = found;
    return this.#deps.acceptances.record({
      ...{ userId, sandboxId, workingDir, parts },
      origin: origin ?? found.origin,
    });
  }
}
