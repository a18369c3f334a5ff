import { type ProviderType, providerTypes } from "@sandpiper/wire";
import { jwtVerify, SignJWT } from "jose";

/** How long an access token is valid. */
const lifetimeSeconds = 14 * 24 * 3600;
const algorithm = "HS256";

/** Signed `X-Access-Token`s, each for one provider token of one user (app-server.md section 8). */
export class ProviderAccessTokens {
  readonly #key: Uint8Array;

  /** `key` has 32 bytes and is used for nothing else. */
  constructor(key: Uint8Array) {
    this.#key = key;
  }

  /** `expiresAt` is in ms since the epoch. */
  async issue(userId: string, provider: ProviderType): Promise<{ token: string; expiresAt: number }> {
    const expires = Math.floor(Date.now() / 1000) + lifetimeSeconds;
    const claims = { user_id: userId, provider_type: provider };
    const token = await new SignJWT(claims)
      .setProtectedHeader({ alg: algorithm })
      .setAudience("provider-token")
      .setExpirationTime(expires)
      .sign(this.#key);
    return { token, expiresAt: expires * 1000 };
  }

  /**
   * The claims of a token; undefined when it is expired or was not signed here for this purpose.
   */
  async verify(token: string): Promise<{ userId: string; provider: ProviderType } | undefined> {
    const options = { algorithms: [algorithm], audience: "provider-token", requiredClaims: ["exp"] };
    const claims = await jwtVerify(token, this.#key, options).then(
      ({ payload }) => payload,
      () => undefined,
    );
    const provider = providerTypes.find((type) => type === claims?.provider_type);
    return provider && typeof claims?.user_id === "string" ? { userId: claims.user_id, provider } : undefined;
  }
}
