import type { CallOptions } from "../connection.ts";
import type { PageOf, PageQuery } from "../pages.ts";
import type {
  MarketplaceRegistration,
  MarketplaceSkillsPreviewResponse,
  ServerInfo,
  ServerStatus,
  SkillInfo,
  WebClientConfig,
} from "../types.ts";
import { Group } from "./group.ts";

/** The server itself. */
export class Server extends Group {
  /** Version, uptime and resources. */
  info(options?: CallOptions): Promise<ServerInfo> {
    return this.connection.get("/server_info", {}, options);
  }

  /** Whether the server is up; needs no key. */
  alive(options?: CallOptions): Promise<ServerStatus> {
    return this.connection.get("/alive", {}, options);
  }

  /** What a GUI needs to know before the login; needs no key. */
  webConfig(options?: CallOptions): Promise<WebClientConfig> {
    return this.connection.get("/api/v1/web-client/config", {}, options);
  }

  /** The skills that all agents of the user have. */
  skills(query?: PageQuery, options?: CallOptions): Promise<PageOf<SkillInfo>> {
    return this.connection.get("/api/v1/skills/search", { ...query }, options);
  }

  /** The skills of marketplaces that are not registered yet. */
  previewMarketplaces(
    registrations: readonly MarketplaceRegistration[],
    options?: CallOptions,
  ): Promise<MarketplaceSkillsPreviewResponse> {
    return this.connection.post("/api/v1/skills/marketplace-skills", registrations, options);
  }
}
