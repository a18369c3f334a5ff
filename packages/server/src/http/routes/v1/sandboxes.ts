import type { Server } from "node:http";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { toNetworkPolicy, toRules } from "@sandpiper/sandbox/specs/network-override";
import {
  isoTime,
  Nullable,
  parseId,
  SandboxInfo,
  SandboxPage,
  SandboxStartRequest,
  Success,
} from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { Config } from "../../../config/config.ts";
import { newSandbox } from "../../../nodes/api.ts";
import type { Viewer } from "../../../users/api.ts";
import { createdBy } from "../../../users/default-user.ts";
import { makeSessionKey, type SandboxGrant } from "../../../users/sandbox-grants.ts";
import { ofRequest, param, type Subject } from "../../forwarding/concern.ts";
import { getExposedUrls } from "../../server/exposed-urls.ts";
import { makeRoute } from "../../server/make-route.ts";
import { checkCount, PageQuery, pageRequest, toWirePage } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";

const SandboxPath = Type.Object({ sandbox_id: Type.String() });

/** Lifecycle of sandboxes (app-server.md section 4). */
export function sandboxRoutes(
  app: App,
  { sandboxes, config }: Pick<HttpServices, "sandboxes" | "config">,
): void {
  const route = makeRoute(["sandboxes"]);
  const info = (row: SandboxRow, { source }: Viewer) => toSandboxInfo({ row, source }, config, app.server);

  app.get(
    "/api/v1/sandboxes/search",
    route("List sandboxes", { querystring: PageQuery, response: { 200: SandboxPage } }),
    async (request) => {
      const { items, nextPageId } = await sandboxes.search(
        request.principal.userId,
        pageRequest(request.query),
      );
      return toWirePage({ items: items.map((row) => info(row, request.principal)), nextPageId });
    },
  );
  app.get(
    "/api/v1/sandboxes",
    route(
      "Read sandboxes by id; null for unknown ones",
      {
        querystring: Type.Object({ id: Type.Array(Type.String()) }),
        response: { 200: Type.Array(Nullable(SandboxInfo)) },
      },
      { failures: [400] },
    ),
    async (request) => {
      checkCount(request.query.id, 100);
      const { userId } = request.principal;
      const rows = await Promise.all(
        request.query.id.map((id) => sandboxes.get(userId, normalizeSandboxId(id))),
      );
      return rows.map((row) => (row ? info(row, request.principal) : null));
    },
  );
  app.post(
    "/api/v1/sandboxes",
    route(
      "Start a sandbox",
      {
        querystring: Type.Object({
          sandbox_spec_id: Type.Optional(
            Type.String({ description: "id of a spec, or an image in a registry: docker://python:3.13" }),
          ),
          snapshot_id: Type.Optional(
            Type.String({
              description: "start with the files of this snapshot, and by default its spec",
            }),
          ),
        }),
        body: Type.Object(SandboxStartRequest.properties, { default: {} }),
        response: { 200: SandboxInfo },
      },
      { failures: [404, 409, 503], concerns: ofRequest(subjectOfCreation) },
    ),
    async (request) => {
      const { sandbox_spec_id, snapshot_id } = request.query;
      const { network, allow, env, working_dir: workingDir } = request.body;
      const row = await sandboxes.create(request.principal.userId, sandbox_spec_id, {
        ...(snapshot_id !== undefined && { snapshotId: snapshot_id }),
        ...(network && { network: toNetworkPolicy(network) }),
        ...(workingDir && { workingDir }),
        ...(allow && { allow: toRules(allow) }),
        ...(env && { env }),
      });
      return info(row, request.principal);
    },
  );
  const verbs = {
    pause: "Freeze the processes of a sandbox and pause its conversations; any use wakes it",
    resume: "Resume the processes of a sandbox, or restart them after a hibernation or an error",
  };
  for (const verb of ["pause", "resume"] as const) {
    app.post(
      `/api/v1/sandboxes/:sandbox_id/${verb}`,
      route(verbs[verb], { params: SandboxPath, response: { 200: Success } }, { failures: [409, 503] }),
      async (request) => {
        await sandboxes[verb](request.principal.userId, normalizeSandboxId(request.params.sandbox_id));
        return { success: true };
      },
    );
  }
  app.delete(
    "/api/v1/sandboxes/:sandbox_id",
    route("Delete a sandbox; the query's id overrides the path's", {
      params: SandboxPath,
      querystring: Type.Object({ sandbox_id: Type.Optional(Type.String()) }),
      response: { 200: Success },
    }),
    async (request) => {
      const id = request.query.sandbox_id ?? request.params.sandbox_id;
      await sandboxes.remove(request.principal.userId, normalizeSandboxId(id));
      return { success: true };
    },
  );
}

/** A snapshot may be on the machine of the node that the client has chosen. */
function subjectOfCreation({ query }: FastifyRequest): Subject | undefined {
  return param(query, "snapshot_id") === undefined ? newSandbox : undefined;
}

/** Normalises a client's sandbox id: UUIDs are accepted in both forms. */
export function normalizeSandboxId(text: string): string {
  return parseId(text) ?? text;
}

/** Converts a sandbox to its wire form. */
export function toSandboxInfo(grant: SandboxGrant, config: Config, server: Server): SandboxInfo {
  const { row } = grant;
  const running = row.status === "RUNNING";
  return {
    id: row.id,
    created_by_user_id: createdBy(row.userId),
    sandbox_spec_id: row.specId,
    status: row.status,
    session_api_key: running ? makeSessionKey(grant) : null,
    exposed_urls: running ? getExposedUrls(grant, config, server) : null,
    created_at: isoTime(row.createdAt),
    status_detail: row.statusDetail,
  };
}
