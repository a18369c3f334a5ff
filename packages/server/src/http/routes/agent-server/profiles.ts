import { verifyModel } from "@sandpiper/models/verify-model";
import {
  AgentServerActivatedProfile,
  AgentServerProfileList,
  AgentServerSaveProfile,
  ExposeSecrets,
  ProfileDetail,
  ProfileMutation,
  ProfileName,
  RenameProfileRequest,
  ValidateProfileRequest,
  ValidateProfileResponse,
} from "@sandpiper/wire";
import { Type } from "typebox";
import { toModelConfig } from "../../../users/profiles.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { profileEditRoutes } from "../account/profile-edits.ts";
import { parseExposure } from "./exposure.ts";

const base = "/api/profiles";
const params = Type.Object({ name: ProfileName });

/**
 * LLM profiles of `/api/v1/settings/profiles` in the agent server's shape (agent-server.md section
 * 9).
 */
export function agentLlmProfileRoutes(
  app: App,
  {
    settings: { profiles },
    encryptedValues,
    openModel,
  }: Pick<HttpServices, "settings" | "encryptedValues" | "openModel">,
): void {
  const route = makeRoute(["profiles"], { access: "agent" }, { view: "agent" });

  app.get(
    base,
    route("List LLM profiles", { response: { 200: AgentServerProfileList } }),
    async ({ principal }) => {
      const { profiles: found, active_profile } = await profiles.list(principal.userId);
      const none = { provider_connection_id: null, provider_connection_broken: false };
      return { profiles: found.map((profile) => ({ ...profile, ...none })), active_profile };
    },
  );
  app.get(
    `${base}/:name`,
    route(
      "Read an LLM profile",
      { params, headers: ExposeSecrets, response: { 200: ProfileDetail } },
      { failures: [404] },
    ),
    (request) =>
      profiles.get(request.principal.userId, request.params.name, {
        exposed: parseExposure(request, encryptedValues),
      }),
  );
  app.post(
    `${base}/:name`,
    route(
      "Save an LLM profile; a masked key keeps the stored one",
      { params, body: AgentServerSaveProfile, response: { 201: ProfileMutation } },
      { failures: [409] },
    ),
    async ({ principal: { userId }, params: { name }, body: { llm, include_secrets = true } }, reply) => {
      await profiles.save(userId, name, { llm: encryptedValues.decryptAll(userId, llm), include_secrets });
      return reply.code(201).send({ name, message: `Profile '${name}' saved` });
    },
  );
  app.post(
    `${base}/:name/activate`,
    route(
      "Use the profile's model in the settings",
      { params, response: { 200: AgentServerActivatedProfile } },
      { failures: [404] },
    ),
    async ({ principal, params: { name } }) => {
      await profiles.activate(principal.userId, name);
      return { name, message: `Profile '${name}' activated`, llm_applied: true };
    },
  );
  profileEditRoutes(app, route, {
    base,
    noun: ["Profile", "an LLM profile"],
    name: ProfileName,
    body: RenameProfileRequest,
    failures: [404, 409],
    removeFailures: [409],
    profiles,
  });
  app.post(
    `${base}/:name/validate`,
    route(
      "Verify a model with one short call before it is saved; a masked key stands for the stored profile's",
      { params, body: ValidateProfileRequest, response: { 200: ValidateProfileResponse } },
    ),
    async ({ principal: { userId }, params: { name }, body }) => {
      const llm = await profiles.restoreSecrets(userId, name, encryptedValues.decryptAll(userId, body.llm));
      const error = await verifyModel(openModel, { model: "", ...toModelConfig(llm, userId) });
      return { valid: error === undefined, error: error ?? null };
    },
  );
}
