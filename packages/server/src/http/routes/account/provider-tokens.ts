import type { ProviderTokens, ProviderType } from "@sandpiper/wire";
import type { HttpServices } from "../../server/services.ts";

export type ProviderTokenServices = Pick<HttpServices, "secrets" | "settings"> & {
  git: Pick<HttpServices["git"], "check">;
};

/**
 * Makes these the user's tokens of git providers, after each new one was tried at its provider: an empty one keeps what is stored, and
 * providers that are absent are dropped. MCP servers in the body are stored too. Throws ProviderTokenInvalid and what else the check throws.
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
      // A stored token at another host is as good as a new one.
      const tried = token ?? (before && before.host !== host ? before.token : undefined);
      if (tried !== undefined) await git.check(provider, { token: tried, host });
    }),
  );
  await secrets.setProviders(userId, tokens);
  if (mcp_config) await settings.update(userId, { mcp_config });
}
