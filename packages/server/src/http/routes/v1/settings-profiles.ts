import {
  ActivatedProfile,
  ProfileDetail,
  ProfileList,
  ProfileMutation,
  ProfileName,
  RenameProfileRequest,
  SaveProfileBody,
} from "@sandpiper/wire";
import type { preHandlerHookHandler } from "fastify";
import { type TString, Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { profileEditRoutes } from "../account/profile-edits.ts";

/** Variants of the routes: their path, further path parameters and checks. */
export interface ProfileRouteOptions {
  base: string;
  keys: Record<string, TString>;
  preHandler: preHandlerHookHandler[];
  /**
   * A model without `api_key` keeps the profile's key: released clients of this path never see the
   * key.
   */
  keepsKeys?: true;
}

/** LLM profiles (app-server.md section 5), by default of the settings. */
export function settingsProfileRoutes(
  app: App,
  { settings: { profiles } }: Pick<HttpServices, "settings">,
  { base, keys, preHandler, keepsKeys }: ProfileRouteOptions = {
    base: "/api/v1/settings/profiles",
    keys: {},
    preHandler: [],
  },
): void {
  const route = makeRoute(["settings"], { errors: "error" });
  const params = Type.Object({ ...keys, name: ProfileName });
  const listed = Object.keys(keys).length > 0 && { params: Type.Object(keys) };

  app.get(
    base,
    { preHandler, ...route("List LLM profiles", { ...listed, response: { 200: ProfileList } }) },
    ({ principal }) => profiles.list(principal.userId),
  );
  app.get(
    `${base}/:name`,
    {
      preHandler,
      ...route("Read an LLM profile, without secrets", { params, response: { 200: ProfileDetail } }),
    },
    (request) => profiles.get(request.principal.userId, request.params.name),
  );
  app.post(
    `${base}/:name`,
    {
      preHandler,
      ...route(
        "Save an LLM profile; by default with the settings' model",
        { params, body: SaveProfileBody, response: { 201: ProfileMutation } },
        { failures: [409] },
      ),
    },
    async ({ principal, params: { name }, body }, reply) => {
      const keeps = keepsKeys && body?.llm != null && !Object.hasOwn(body.llm, "api_key");
      await profiles.save(principal.userId, name, {
        ...(keeps && { preserve_existing_api_key: true }),
        ...body,
      });
      return reply.code(201).send({ name, message: `Profile '${name}' saved` });
    },
  );
  app.post(
    `${base}/:name/activate`,
    {
      preHandler,
      ...route("Use the profile's model in the settings", { params, response: { 200: ActivatedProfile } }),
    },
    async ({ principal, params: { name } }) => {
      const model = await profiles.activate(principal.userId, name);
      return { name, message: `Profile '${name}' activated`, model };
    },
  );
  profileEditRoutes(app, route, {
    base,
    noun: ["Profile", "an LLM profile"],
    keys,
    name: ProfileName,
    body: RenameProfileRequest,
    removeFailures: [409],
    options: { preHandler },
    profiles,
  });
}
