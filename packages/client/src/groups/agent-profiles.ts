import { type CallOptions, path } from "../connection.ts";
import type {
  ActivatedAgentProfile,
  AgentProfileDetail,
  AgentProfileDiagnostics,
  AgentProfileList,
  AgentProfileMutation,
  MaterializeAgentProfileRequest,
  SaveAgentProfileRequest,
} from "../types.ts";
import { Group } from "./group.ts";

/** Agent profiles: stored, named ways to run an agent. */
export class AgentProfiles extends Group {
  list(options?: CallOptions): Promise<AgentProfileList> {
    return this.connection.get("/api/agent-profiles", {}, options);
  }

  get(name: string, options?: CallOptions): Promise<AgentProfileDetail> {
    return this.connection.get(path`/api/agent-profiles/${name}`, {}, options);
  }

  save(name: string, request: SaveAgentProfileRequest, options?: CallOptions): Promise<AgentProfileMutation> {
    return this.connection.post(path`/api/agent-profiles/${name}`, request, options);
  }

  delete(name: string, options?: CallOptions): Promise<AgentProfileMutation> {
    return this.connection.json("DELETE", path`/api/agent-profiles/${name}`, options);
  }

  rename(name: string, newName: string, options?: CallOptions): Promise<AgentProfileMutation> {
    return this.connection.post(path`/api/agent-profiles/${name}/rename`, { new_name: newName }, options);
  }

  /** Makes new conversations use a profile. */
  activate(id: string, options?: CallOptions): Promise<ActivatedAgentProfile> {
    return this.connection.post(path`/api/agent-profiles/${id}/activate`, undefined, options);
  }

  /** What an agent of the profile would have, and what is missing. */
  check(
    name: string,
    request: MaterializeAgentProfileRequest = {},
    options?: CallOptions,
  ): Promise<AgentProfileDiagnostics> {
    return this.connection.post(path`/api/agent-profiles/${name}/materialize`, request, options);
  }
}
