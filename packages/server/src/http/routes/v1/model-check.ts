import type { ModelConfig } from "@sandpiper/models/model";
import { checkReach } from "@sandpiper/models/reach";
import { ModelCheckRequest, Success } from "@sandpiper/wire";
import { Type } from "typebox";
import { conversationModel } from "../../../conversations/agent/agent-config.ts";
import { defaultUser } from "../../../users/default-user.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";

/** Longest check, ms. */
const maxMs = 30_000;

const path = "/api/v1/app-conversations/model-check";

/**
 * Whether a new conversation could call its model; an addition to the contract, so that a client
 * does not start a sandbox and copy files into it first. `GET` calls nothing; `POST` looks whether
 * the endpoint is there and takes the key.
 */
export function modelCheckRoutes(
  app: App,
  { settings, openModel }: Pick<HttpServices, "settings" | "openModel">,
): void {
  const route = makeRoute(["app conversations"]);
  const ownModel = async (userId: string, llmModel: string | null): Promise<ModelConfig> => {
    const llmProfile = llmModel ? undefined : (await settings.agentProfiles.active(userId))?.llm_profile_ref;
    const { model = "", ...rest } = await conversationModel(
      { userId, config: { llmModel, llmProfile } },
      settings,
    );
    return { model, ...rest };
  };
  app.get(
    path,
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
    async ({ principal: { userId }, query: { llm_model: llmModel = null } }) => {
      openModel(await ownModel(userId, llmModel));
      return { success: true };
    },
  );
  app.post(
    path,
    route(
      "Check that the endpoint of a model is there and takes the key",
      { body: ModelCheckRequest, response: { 200: Success } },
      { failures: [400, 413, 502, 504] },
    ),
    async ({ principal: { userId }, body }) => {
      const { llm_model: model = null, llm_base_url: baseUrl, llm_api_key: apiKey } = body;
      const config: ModelConfig = baseUrl
        ? {
            ...{ model: model ?? "", baseUrl },
            ...(apiKey && { apiKey }),
            ...(userId !== defaultUser && { guarded: true }),
          }
        : await ownModel(userId, model);
      await checkReach(openModel(config), AbortSignal.timeout(maxMs));
      return { success: true };
    },
  );
}
