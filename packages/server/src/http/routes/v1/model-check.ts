import { Success } from "@sandpiper/wire";
import { Type } from "typebox";
import { conversationModel } from "../../../conversations/agent/agent-config.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";

/**
 * Whether a new conversation could call its model; an addition to the contract, so that a client
 * does not start a sandbox and copy files into it first. No model is called.
 */
export function modelCheckRoutes(
  app: App,
  { settings, openModel }: Pick<HttpServices, "settings" | "openModel">,
): void {
  const route = makeRoute(["app conversations"]);
  app.get(
    "/api/v1/app-conversations/model-check",
    route(
      "Check that the model of a new conversation is known and has a key",
      {
        querystring: Type.Object({
          llm_model: Type.Optional(Type.String({ description: "default: the model of the settings" })),
        }),
        response: { 200: Success },
      },
      { failures: [400] },
    ),
    ({ principal: { userId }, query: { llm_model: llmModel = null } }) => {
      const llmProfile = llmModel ? undefined : settings.agentProfiles.active(userId)?.llm_profile_ref;
      const { model = "", ...rest } = conversationModel(
        { userId, config: { llmModel, llmProfile } },
        settings,
      );
      openModel({ model, ...rest });
      return { success: true };
    },
  );
}
