import { type CallOptions, path } from "../connection.ts";
import type { PageOf, PageQuery } from "../pages.ts";
import type { CustomSecretCreate, CustomSecretInfo, CustomSecretUpdate, EditResponse } from "../types.ts";
import { Group } from "./group.ts";

const base = "/api/v1/secrets";

/** Secrets of the user: variables in sandboxes, whose values are never shown again. */
export class Secrets extends Group {
  list(
    query?: PageQuery & { name__contains?: string },
    options?: CallOptions,
  ): Promise<PageOf<CustomSecretInfo>> {
    return this.connection.get(`${base}/search`, { ...query }, options);
  }

  create(secret: CustomSecretCreate, options?: CallOptions): Promise<EditResponse> {
    return this.connection.post(base, secret, options);
  }

  /** Changes the description of a secret and keeps its value. */
  update(name: string, change: CustomSecretUpdate, options?: CallOptions): Promise<EditResponse> {
    return this.connection.json("PUT", path`/api/v1/secrets/${name}`, { ...options, json: change });
  }

  delete(name: string, options?: CallOptions): Promise<EditResponse> {
    return this.connection.json("DELETE", path`/api/v1/secrets/${name}`, options);
  }
}
