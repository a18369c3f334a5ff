import { PlatformError } from "@sandpiper/core/errors";
import {
  LoadPluginRequest,
  SetConfirmationPolicyRequest,
  SetSecurityAnalyzerRequest,
  Success,
  SwitchAcpModelRequest,
  SwitchLlmRequest,
  SwitchProfileRequest,
  UpdateSecretsRequest,
} from "@sandpiper/wire";
import { type TSchema, Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { withoutSocketTimeout } from "../../server/without-socket-timeout.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { resolvePluginRef } from "./plugin-ref.ts";

const params = Type.Object({ conversation_id: Type.String() });

/**
 * Changes of a conversation's secrets, confirmation, model and plugins (agent-server.md section 3).
 */
export function agentConversationControlRoutes(
  app: App,
  {
    conversations,
    settings,
    skills,
    encryptedValues,
  }: Pick<HttpServices, "conversations" | "settings" | "skills" | "encryptedValues">,
): void {
  const base = "/api/conversations/:conversation_id";
  const { settings: controls } = conversations;
  const route = makeRoute(["agent server"], { access: "agent" });
  const options = <Body extends TSchema>(summary: string, body: Body, failures = [409]) =>
    route(summary, { params, body, response: { 200: Success } }, { failures });
  const success = { success: true };

  app.post(
    `${base}/secrets`,
    options("Add secrets: values, or URLs that return them", UpdateSecretsRequest, [409, 502]),
    async ({ principal, params, body }) => {
      const row = await requireConversation(conversations, principal, params.conversation_id);
      await controls.addSecrets(row, encryptedValues.decryptAll(row.userId, body.secrets));
      return success;
    },
  );
  app.post(
    `${base}/confirmation_policy`,
    options("Set when the agent must ask before it acts", SetConfirmationPolicyRequest),
    async ({ principal, params, body }) => {
      await controls.setPolicy(
        await requireConversation(conversations, principal, params.conversation_id),
        body.policy,
      );
      return success;
    },
  );
  app.post(
    `${base}/security_analyzer`,
    options("Set the risk analyzer of actions; null for none", SetSecurityAnalyzerRequest),
    async ({ principal, params, body }) => {
      const row = await requireConversation(conversations, principal, params.conversation_id);
      await controls.setAnalyzer(row, body.security_analyzer);
      return success;
    },
  );
  app.post(
    `${base}/load_plugin`,
    options(
      "Fetch a plugin into the sandbox; its skills apply from the next message",
      LoadPluginRequest,
      [409, 502, 503],
    ),
    async (request) => {
      const row = await requireConversation(conversations, request.principal, request.params.conversation_id);
      const { marketplaces } = await settings.agent(row.userId);
      await withoutSocketTimeout(app, request, async () => {
        await controls.loadPlugin(row, await resolvePluginRef(request.body.plugin_ref, marketplaces, skills));
      });
      return success;
    },
  );
  app.post(
    `${base}/switch_llm`,
    options("Use this model from the next model call", SwitchLlmRequest),
    async ({ principal, params, body }) => {
      const row = await requireConversation(conversations, principal, params.conversation_id);
      await controls.switchLlm(row, encryptedValues.decryptAll(row.userId, body.llm));
      return success;
    },
  );
  app.post(
    `${base}/switch_profile`,
    options("Use an LLM profile of the settings from the next model call", SwitchProfileRequest),
    async ({ principal, params, body }) => {
      const { id, userId } = await requireConversation(conversations, principal, params.conversation_id);
      await conversations.switchProfile(userId, id, body.profile_name);
      return success;
    },
  );
  app.post(
    `${base}/switch_acp_model`,
    options("Refused: this server has no ACP agents", SwitchAcpModelRequest, [400]),
    async ({ principal, params }) => {
      await requireConversation(conversations, principal, params.conversation_id);
      throw new PlatformError("AcpModelUnsupported", { use: "switch_llm or switch_profile" });
    },
  );
}
