import { PlatformError } from "@sandpiper/core/errors";
import type { SnapshotRow } from "@sandpiper/sandbox/sandbox-store";
import { isoTime, SnapshotInfo, SnapshotPage, Success } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import { PageQuery, pageRequest, toWirePage } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { normalizeSandboxId } from "./sandboxes.ts";

/**
 * Snapshots of sandboxes; an extension of the contract. `POST /api/v1/sandboxes?snapshot_id=`
 * creates a sandbox from one.
 */
export function snapshotRoutes(app: App, { sandboxes }: Pick<HttpServices, "sandboxes">): void {
  const route = makeRoute(["snapshots"]);
  const { snapshots } = sandboxes;

  app.post(
    "/api/v1/sandboxes/:sandbox_id/snapshots",
    route(
      "Take a snapshot of a sandbox's files",
      { params: Type.Object({ sandbox_id: Type.String() }), response: { 201: SnapshotInfo } },
      { failures: [409, 503] },
    ),
    async (request, reply) => {
      const id = normalizeSandboxId(request.params.sandbox_id);
      const row = await snapshots.create(request.principal.userId, id);
      return reply.code(201).send(toSnapshotInfo(row));
    },
  );
  app.get(
    "/api/v1/snapshots/search",
    route("List snapshots, newest first", { querystring: PageQuery, response: { 200: SnapshotPage } }),
    async (request) => {
      const { items, nextPageId } = await snapshots.search(
        request.principal.userId,
        pageRequest(request.query),
      );
      return toWirePage({ items: items.map(toSnapshotInfo), nextPageId });
    },
  );
  app.get(
    "/api/v1/snapshots/:snapshot_id",
    route("Read a snapshot", {
      params: Type.Object({ snapshot_id: Type.String() }),
      response: { 200: SnapshotInfo },
    }),
    async (request) => {
      const row = await snapshots.get(request.principal.userId, request.params.snapshot_id);
      if (!row) throw new PlatformError("SnapshotUnknown");
      return toSnapshotInfo(row);
    },
  );
  app.delete(
    "/api/v1/snapshots/:snapshot_id",
    route("Delete a snapshot; sandboxes made from it keep their files", {
      params: Type.Object({ snapshot_id: Type.String() }),
      response: { 200: Success },
    }),
    async (request) => {
      await snapshots.remove(request.principal.userId, request.params.snapshot_id);
      return { success: true };
    },
  );
}

function toSnapshotInfo({ id, sandboxId, spec, createdAt }: SnapshotRow): SnapshotInfo {
  return {
    id,
    sandbox_id: sandboxId,
    sandbox_spec_id: (spec as { id: string }).id,
    created_at: isoTime(createdAt),
  };
}
