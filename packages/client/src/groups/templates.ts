import { type CallOptions, path } from "../connection.ts";
import type { PageOf, PageQuery } from "../pages.ts";
import type { SandboxSpecInfo, SnapshotInfo, Success } from "../types.ts";
import { first, Group } from "./group.ts";

/** Snapshots: the kept files of sandboxes, from which others can start. */
export class Snapshots extends Group {
  create(sandbox: string, options?: CallOptions): Promise<SnapshotInfo> {
    // Copying the files of a large sandbox takes minutes.
    const patient = { timeoutMs: Number.POSITIVE_INFINITY, ...options };
    return this.connection.post(path`/api/v1/sandboxes/${sandbox}/snapshots`, undefined, patient);
  }

  list(query?: PageQuery, options?: CallOptions): Promise<PageOf<SnapshotInfo>> {
    return this.connection.get("/api/v1/snapshots/search", { ...query }, options);
  }

  get(id: string, options?: CallOptions): Promise<SnapshotInfo> {
    return this.connection.get(path`/api/v1/snapshots/${id}`, {}, options);
  }

  delete(id: string, options?: CallOptions): Promise<Success> {
    return this.connection.json("DELETE", path`/api/v1/snapshots/${id}`, options);
  }
}

/** Specs: the templates of sandboxes. */
export class Specs extends Group {
  list(query?: PageQuery, options?: CallOptions): Promise<PageOf<SandboxSpecInfo>> {
    return this.connection.get("/api/v1/sandbox-specs/search", { ...query }, options);
  }

  /** A spec; undefined when there is none with the id. */
  async get(id: string, options?: CallOptions): Promise<SandboxSpecInfo | undefined> {
    const query = { id: [id] };
    return first(
      await this.connection.get<(SandboxSpecInfo | null)[]>("/api/v1/sandbox-specs", query, options),
    );
  }
}
