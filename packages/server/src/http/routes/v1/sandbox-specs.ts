import type { SandboxSpec } from "@sandpiper/sandbox/driver";
import { isoTime, Nullable, SandboxSpecInfo, SandboxSpecPage } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import { checkCount, PageQuery, pageRequest, slicePage, toWirePage } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";

/** Sandbox templates, the default first (app-server.md section 4). */
export function sandboxSpecRoutes(app: App, { sandboxes }: Pick<HttpServices, "sandboxes">): void {
  const route = makeRoute(["sandbox specs"]);
  const createdAt = isoTime(Date.now());
  const info = (spec: SandboxSpec): SandboxSpecInfo => ({
    id: spec.id,
    command: spec.command,
    created_at: createdAt,
    initial_env: spec.env,
    working_dir: spec.workingDir,
  });

  app.get(
    "/api/v1/sandbox-specs/search",
    route("List specs", { querystring: PageQuery, response: { 200: SandboxSpecPage } }),
    (request) => toWirePage(slicePage(sandboxes.specs().map(info), pageRequest(request.query))),
  );
  app.get(
    "/api/v1/sandbox-specs",
    route("Read specs by id, such as that of an image (docker://python:3.13); null for unknown ones", {
      querystring: Type.Object({ id: Type.Array(Type.String()) }),
      response: { 200: Type.Array(Nullable(SandboxSpecInfo)) },
    }),
    async (request) => {
      checkCount(request.query.id, 100);
      const specs = new Map(sandboxes.specs().map((spec) => [spec.id, info(spec)]));
      const image = async (id: string) =>
        id.startsWith("docker://") ? info(await sandboxes.resolveSpec(request.principal.userId, id)) : null;
      return Promise.all(request.query.id.map((id) => specs.get(id) ?? image(id)));
    },
  );
}
