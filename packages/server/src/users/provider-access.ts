import { type ProviderType, providerTypes } from "@sandpiper/wire";
import { jwtVerify, SignJWT } from "jose";
import type { CredentialSources, Viewer } from "./api.ts";

/** How long an access token is valid. */
const lifetimeSeconds = 14 * 24 * 3600;
const algorithm = "HS256";

/**
 * Signed `X-Access-Token`s, each for one provider token of one user (app-server.md section 8). They
 * end with the key or login that they were issued to.
 */
export class ProviderAccessTokens {
  readonly #key: Uint8Array;

  readonly #sources: Pick<CredentialSources, "holder">;

  /** `key` has 32 bytes and is used for nothing else. */
  constructor(key: Uint8Array, sources: Pick<CredentialSources, "holder">) {
    this.#key = key;
    this.#sources = sources;
  }

  /** `expiresAt` is in ms since the epoch. */
  async issue(
    { userId, source }: Viewer,
    provider: ProviderType,
  ): Promise<{ token: string; expiresAt: number }> {
    const expires = Math.floor(Date.now() / 1000) + lifetimeSeconds;
    const claims = { user_id: userId, provider_type: provider, source };
    const token = await new SignJWT(claims)
      .setProtectedHeader({ alg: algorithm })
      .setAudience("provider-token")
      .setExpirationTime(expires)
      .sign(this.#key);
    return { token, expiresAt: expires * 1000 };
  }

  /**
   * The claims of a token; undefined when it or its source has ended, or when it was not signed
   * here for this purpose.
   */
  async verify(token: string): Promise<{ userId: string; provider: ProviderType } | undefined> {
    const options = { algorithms: [algorithm], audience: "provider-token", requiredClaims: ["exp"] };
    const claims = await jwtVerify(token, this.#key, options).then(
      ({ payload }) => payload,
      () => undefined,
    );
    const provider = providerTypes.find((type) => type === claims?.provider_type);
    const holder = typeof claims?.source === "string" ? await this.#sources.holder(claims.source) : undefined;
    return provider && holder && holder.userId === claims?.user_id
      ? { userId: holder.userId, provider }
      : undefined;
  }
}
