import {
  ActivatedAgentProfile,
  AgentProfileDetail,
  AgentProfileDiagnostics,
  AgentProfileList,
  AgentProfileMutation,
  AgentProfileName,
  MaterializeAgentProfileRequest,
  RenameAgentProfileRequest,
  SaveAgentProfileRequest,
} from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { profileEditRoutes } from "./profile-edits.ts";

const base = "/api/agent-profiles";
const params = Type.Object({ name: AgentProfileName });

/**
 * Agent profiles (app-server.md section 1, agent-server.md section 9), for users and, with the
 * agent server's view, for session keys. The path has no version, as in the reference.
 */
export function agentProfileRoutes(
  app: App,
  { settings: { agentProfiles } }: Pick<HttpServices, "settings">,
  constraints: { view?: "agent" } = {},
): void {
  const route = makeRoute(["agent profiles"], { access: constraints.view ?? "user" }, constraints);

  app.get(base, route("List agent profiles", { response: { 200: AgentProfileList } }), ({ principal }) =>
    agentProfiles.list(principal.userId),
  );
  app.get(
    `${base}/:name`,
    route("Read an agent profile", { params, response: { 200: AgentProfileDetail } }),
    async ({ principal, params: { name } }) => ({
      name,
      profile: await agentProfiles.get(principal.userId, name),
    }),
  );
  app.post(
    `${base}/:name`,
    route(
      "Save an agent profile; an existing one keeps its id and gets the next revision",
      { params, body: SaveAgentProfileRequest, response: { 201: AgentProfileMutation } },
      { failures: [409] },
    ),
    async ({ principal, params: { name }, body }, reply) => {
      await agentProfiles.save(principal.userId, name, body);
      return reply.code(201).send({ name, message: `Agent profile '${name}' saved` });
    },
  );
  profileEditRoutes(app, route, {
    base,
    noun: ["Agent profile", "an agent profile"],
    name: AgentProfileName,
    body: RenameAgentProfileRequest,
    profiles: agentProfiles,
  });
  app.post(
    `${base}/:profile_id/activate`,
    route("Make this the default profile of new conversations; agent_settings stay", {
      params: Type.Object({
        profile_id: Type.String({ minLength: 1, maxLength: 128, description: "id of the profile" }),
      }),
      response: { 200: ActivatedAgentProfile },
    }),
    async ({ principal, params: { profile_id: id } }) => {
      const profile = await agentProfiles.activate(principal.userId, id);
      return {
        id: profile.id,
        message: `Agent profile '${profile.name}' activated`,
        agent_settings_applied: false,
      };
    },
  );
  app.post(
    `${base}/:name/materialize`,
    route("Resolve the profile, or a draft in the body, without changing anything", {
      params,
      body: MaterializeAgentProfileRequest,
      response: { 200: AgentProfileDiagnostics },
    }),
    ({ principal, params: { name }, body }) =>
      agentProfiles.diagnose(principal.userId, name, body.profile ?? undefined),
  );
}
