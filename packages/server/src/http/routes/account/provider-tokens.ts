import { EditResponse, isMasked, ProviderTokens, type ProviderType } from "@sandpiper/wire";
import type { Route } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";

export type ProviderTokenServices = Pick<HttpServices, "secrets" | "settings"> & {
  git: Pick<HttpServices["git"], "checkToken">;
};

/** Routes that replace and remove the tokens of git providers. */
export function providerTokenRoutes(
  app: App,
  route: Route,
  services: ProviderTokenServices,
  { set, unset }: { set: string; unset: { method: "POST" | "DELETE"; url: string } },
): void {
  app.post(
    set,
    route(
      "Replace the tokens of git providers; each new one is checked first",
      { body: ProviderTokens, response: { 200: EditResponse } },
      { failures: [502] },
    ),
    async (request) => {
      await storeProviderTokens(services, request.principal.userId, request.body);
      return { message: "Git providers stored" };
    },
  );
  app.route({
    ...unset,
    ...route("Remove all tokens of git providers", { response: { 200: EditResponse } }),
    handler: async (request) => {
      await services.secrets.setProviders(request.principal.userId, new Map());
      return { message: "Unset Git provider tokens" };
    },
  });
}

/**
 * Replaces the user's tokens of git providers after checking each new one. An empty token keeps the
 * stored one; absent providers are removed. Also stores the body's MCP servers. Throws
 * ProviderTokenInvalid and other errors of the check.
 */
async function storeProviderTokens(
  { secrets, settings, git }: ProviderTokenServices,
  userId: string,
  { provider_tokens, mcp_config }: ProviderTokens,
): Promise<void> {
  const given = Object.entries(provider_tokens ?? {}).filter(
    ([, input]) => input !== null && input !== undefined,
  );
  const tokens = new Map(
    given.map(([provider, input]) => [
      provider as ProviderType,
      {
        token: isMasked(input!.token) ? null : input!.token?.trim() || null,
        host: input!.host?.trim() || null,
      },
    ]),
  );
  const stored = await secrets.providers(userId);
  await Promise.all(
    [...tokens].map(async ([provider, { token, host }]) => {
      const before = stored.get(provider);
      // Check a stored token against a changed host.
      const tried = token ?? (before && before.host !== host ? before.token : undefined);
      if (tried !== undefined) await git.checkToken(provider, { token: tried, host });
    }),
  );
  await secrets.setProviders(userId, tokens);
  if (mcp_config) await settings.update(userId, { mcp_config });
}
