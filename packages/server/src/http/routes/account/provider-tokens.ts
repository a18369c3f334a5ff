import type { ProviderTokens, ProviderType } from "@sandpiper/wire";
import type { HttpServices } from "../../server/services.ts";

export type ProviderTokenServices = Pick<HttpServices, "secrets" | "settings"> & {
  git: Pick<HttpServices["git"], "checkToken">;
};

/**
 * Replaces the user's tokens of git providers after checking each new one. An empty token keeps the
 * stored one; absent providers are removed. Also stores the body's MCP servers. Throws
 * ProviderTokenInvalid and other errors of the check.
 */
export async function storeProviderTokens(
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
      { token: input!.token?.trim() || null, host: input!.host?.trim() || null },
    ]),
  );
  const stored = secrets.providers(userId);
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
