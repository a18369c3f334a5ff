import { knownModels, knownProviders } from "@sandpiper/models/known-models";
import {
  LlmModelNames,
  LlmProviderNames,
  SubscriptionModels,
  SubscriptionStatus,
  VerifiedModels,
} from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App } from "../../server/services.ts";

/** Known models in the agent server's shape (agent-server.md section 9). */
export function agentLlmRoutes(app: App): void {
  const route = makeRoute(["models"], { access: "agent" });
  const shown = knownModels.filter(({ hidden }) => !hidden);

  app.get(
    "/api/llm/providers",
    route("List model providers", { response: { 200: LlmProviderNames } }),
    () => ({ providers: knownProviders.map(({ name }) => name) }),
  );
  app.get(
    "/api/llm/models",
    route("List models of one provider or all", {
      querystring: Type.Object({
        provider: Type.Optional(Type.String({ maxLength: 256, description: "name of the provider" })),
      }),
      response: { 200: LlmModelNames },
    }),
    ({ query: { provider: wanted } }) => {
      const found = shown.filter(({ provider }) => !wanted || provider === wanted);
      return { models: found.map(({ provider, name }) => (provider ? `${provider}/${name}` : name)) };
    },
  );
  app.get(
    "/api/llm/models/verified",
    route("List verified models by provider", { response: { 200: VerifiedModels } }),
    () => {
      const verified = shown.filter((model) => model.verified);
      const providers = Object.entries(Object.groupBy(verified, ({ provider }) => provider ?? ""));
      return {
        models: Object.fromEntries(
          providers.map(([provider, models = []]) => [provider, models.map(({ name }) => name)]),
        ),
      };
    },
  );

  // Models are called with keys; vendor subscriptions are not supported.
  const status = { vendor: "openai", connected: false, account_email: null, expires_at: null } as const;
  app.get(
    "/api/llm/subscription/openai/models",
    route("List models of a subscription: always empty", { response: { 200: SubscriptionModels } }),
    () => ({ vendor: "openai" as const, models: [] }),
  );
  app.get(
    "/api/llm/subscription/openai/status",
    route("Read the subscription login: never connected", { response: { 200: SubscriptionStatus } }),
    () => status,
  );
  app.post(
    "/api/llm/subscription/openai/logout",
    route("End a subscription login: has no effect", { response: { 200: SubscriptionStatus } }),
    () => status,
  );
}
