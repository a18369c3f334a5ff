import { type CallOptions, path } from "../connection.ts";
import type { PageOf, PageQuery } from "../pages.ts";
import type {
  ActivatedProfile,
  AgentProfileMutation,
  EditResponse,
  LLMModel,
  LLMProvider,
  McpTestResult,
  ProfileDetail,
  ProfileList,
  SaveProfileRequest,
  SettingsSchema,
  SettingsV1,
  SettingsV1Update,
} from "../types.ts";
import { Group } from "./group.ts";

const base = "/api/v1/settings";

/** The settings of the user. */
export class Settings extends Group {
  get(options?: CallOptions): Promise<SettingsV1> {
    return this.connection.get(base, {}, options);
  }

  /** Changes the named fields; the others stay. */
  update(change: SettingsV1Update, options?: CallOptions): Promise<EditResponse> {
    return this.connection.post(base, change, options);
  }

  /** The fields of agents, for forms. */
  agentSchema(options?: CallOptions): Promise<SettingsSchema> {
    return this.connection.get(`${base}/agent-schema`, {}, options);
  }

  /** The fields of conversations, for forms. */
  conversationSchema(options?: CallOptions): Promise<SettingsSchema> {
    return this.connection.get(`${base}/conversation-schema`, {}, options);
  }

  /** Whether a stored MCP server answers, and with which tools. */
  testMcpServer(name: string, options?: CallOptions): Promise<McpTestResult> {
    return this.connection.post(path`/api/v1/settings/mcp/${name}/test`, undefined, options);
  }

  /** The models that the server knows. */
  models(
    query?: PageQuery & { query?: string; verified__eq?: boolean; provider__eq?: string },
    options?: CallOptions,
  ): Promise<PageOf<LLMModel>> {
    return this.connection.get("/api/v1/config/models/search", { ...query }, options);
  }

  /** The providers of models that the server knows. */
  providers(
    query?: PageQuery & { query?: string; verified__eq?: boolean },
    options?: CallOptions,
  ): Promise<PageOf<LLMProvider>> {
    return this.connection.get("/api/v1/config/providers/search", { ...query }, options);
  }
}

/** LLM profiles: stored, named models with their keys. */
export class Profiles extends Group {
  list(options?: CallOptions): Promise<ProfileList> {
    return this.connection.get(`${base}/profiles`, {}, options);
  }

  get(name: string, options?: CallOptions): Promise<ProfileDetail> {
    return this.connection.get(path`/api/v1/settings/profiles/${name}`, {}, options);
  }

  /** Stores a profile; without a model, that of the settings. */
  save(name: string, request: SaveProfileRequest = {}, options?: CallOptions): Promise<AgentProfileMutation> {
    return this.connection.post(path`/api/v1/settings/profiles/${name}`, request, options);
  }

  delete(name: string, options?: CallOptions): Promise<AgentProfileMutation> {
    return this.connection.json("DELETE", path`/api/v1/settings/profiles/${name}`, options);
  }

  /** Makes the settings use the model of a profile. */
  activate(name: string, options?: CallOptions): Promise<ActivatedProfile> {
    return this.connection.post(path`/api/v1/settings/profiles/${name}/activate`, undefined, options);
  }

  rename(name: string, newName: string, options?: CallOptions): Promise<AgentProfileMutation> {
    const request = { new_name: newName };
    return this.connection.post(path`/api/v1/settings/profiles/${name}/rename`, request, options);
  }
}
