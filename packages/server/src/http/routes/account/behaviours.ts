import { PlatformError } from "@sandpiper/core/errors";
import {
  Behaviour,
  BehaviourParams,
  Behaviours,
  FindBehaviourRequest,
  Nullable,
  Success,
} from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { normalizeSandboxId } from "../v1/sandboxes.ts";
import { behaviourPageHeaders, renderBehaviourPage } from "./behaviour-page.ts";

const formType = "application/x-www-form-urlencoded";

/** A form has no fields of its own; small, because it says nothing. */
const maxFormBytes = 8_192;

/**
 * What projects do by themselves, and what users accept of it; an addition to the contract. The
 * page is for people whose client does not know these routes.
 */
export function behaviourRoutes(
  app: App,
  services: Pick<HttpServices, "acceptances" | "conversations" | "sandboxes">,
): void {
  registerApi(app, services);
  // Only the page parses forms.
  app.register(async (scope) => {
    scope.addContentTypeParser<string>(formType, { parseAs: "string" }, (_request, _text, done) => {
      done(null, {});
    });
    registerPage(scope as App, services);
  });
}

function registerApi(
  app: App,
  {
    acceptances,
    conversations,
    sandboxes,
  }: Pick<HttpServices, "acceptances" | "conversations" | "sandboxes">,
): void {
  const route = makeRoute(["behaviours"]);

  app.get(
    "/api/v1/behaviours",
    route(
      "List what projects do by themselves, found or accepted, newest first",
      {
        querystring: Type.Object({
          sandbox_id: Type.Optional(Type.String({ description: "only what was found in this sandbox" })),
        }),
        response: { 200: Behaviours },
      },
      { concerns: "any node" },
    ),
    (request) => {
      const { sandbox_id: id } = request.query;
      return acceptances.list(request.principal.userId, id === undefined ? id : normalizeSandboxId(id));
    },
  );
  app.get(
    "/api/v1/behaviours/:digest",
    route("Read what a project does by itself", { params: BehaviourParams, response: { 200: Behaviour } }),
    (request) => acceptances.get(request.principal.userId, request.params.digest),
  );
  app.put(
    "/api/v1/behaviours/:digest/acceptance",
    route(
      "Accept what a project does: its sandboxes get your secrets from the next request on",
      { params: BehaviourParams, response: { 200: Behaviour } },
      { failures: [409] },
    ),
    (request) => acceptances.accept(request.principal.userId, request.params.digest),
  );
  app.delete(
    "/api/v1/behaviours/:digest/acceptance",
    route("Withdraw an acceptance, if there is one", {
      params: BehaviourParams,
      response: { 200: Success },
    }),
    async (request) => {
      await acceptances.revoke(request.principal.userId, request.params.digest);
      return { success: true };
    },
  );
  app.post(
    "/api/v1/sandboxes/:sandbox_id/behaviour",
    route(
      "Find what a project in a sandbox does by itself, before a conversation begins; null when nothing",
      {
        params: Type.Object({ sandbox_id: Type.String() }),
        body: FindBehaviourRequest,
        response: { 200: Nullable(Behaviour) },
      },
      { failures: [409, 503] },
    ),
    async (request) => {
      const { userId } = request.principal;
      const row = await sandboxes.get(userId, normalizeSandboxId(request.params.sandbox_id));
      if (!row) throw new PlatformError("SandboxUnknown");
      const { working_dir: workingDir, origin } = request.body;
      const place = { userId, sandboxId: row.id, workingDir, plugins: [], origin: origin ?? undefined };
      return (await conversations.findBehaviour(place, await sandboxes.running(row.id))) ?? null;
    },
  );
}

function registerPage(app: App, { acceptances }: Pick<HttpServices, "acceptances">): void {
  const route = makeRoute(["behaviours"]);
  const page = { produces: ["text/html"], params: BehaviourParams, response: { 200: Type.String() } };

  app.get(
    "/behaviours/:digest",
    route(
      "A page on which a person reads and accepts what a project does",
      {
        ...page,
        response: {
          ...page.response,
          303: Type.Null({ description: "A browser without a login: the login" }),
        },
      },
      { page: true },
    ),
    async (request, reply) => {
      reply.headers(behaviourPageHeaders);
      return renderBehaviourPage(await acceptances.get(request.principal.userId, request.params.digest));
    },
  );
  app.post(
    "/behaviours/:digest",
    {
      bodyLimit: maxFormBytes,
      ...route(
        "Accept what a project does, by the form of its page",
        { ...page, consumes: [formType] },
        { failures: [409] },
      ),
    },
    async (request, reply) => {
      const behaviour = await acceptances.accept(request.principal.userId, request.params.digest);
      reply.headers(behaviourPageHeaders);
      return renderBehaviourPage(behaviour);
    },
  );
}
