import { PlatformError } from "@sandpiper/core/errors";
import { ApiKey, ApiKeyRequest, isoTime, NewApiKey, parseId, Success } from "@sandpiper/wire";
import { Type } from "typebox";
import type { ApiKeyRow } from "../../../store/user-store.ts";
import { makeRoute } from "../../server/make-route.ts";
import { parseTimeParam } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";

/**
 * API keys of the calling user; an addition to the contract. A key cannot create a more powerful or
 * longer-lived one: read-only keys create none, and a new key expires no later than its creator.
 */
export function keyRoutes(app: App, { apiKeys }: Pick<HttpServices, "apiKeys">): void {
  const route = makeRoute(["keys"]);

  app.get(
    "/api/keys",
    route("List your API keys, oldest first", { response: { 200: Type.Array(ApiKey) } }),
    async (request) => (await apiKeys.list(request.principal.userId)).map(toApiKey),
  );
  app.post(
    "/api/keys",
    route(
      "Create an API key, which only this response shows",
      { body: ApiKeyRequest, response: { 201: NewApiKey } },
      { failures: [409] },
    ),
    async (request, reply) => {
      const { name, expires_at, read_only } = request.body;
      const { userId, keyExpiresAt = null } = request.principal;
      const expiresAt = resolveExpiry(expires_at, keyExpiresAt);
      const { key, row } = await apiKeys.add(userId, { name, expiresAt, readOnly: read_only === true });
      reply.code(201);
      return { ...toApiKey(row), key };
    },
  );
  app.delete(
    "/api/keys/:key_id",
    route("Revoke one of your API keys, and the logins made with it", {
      params: Type.Object({ key_id: Type.String({ description: "id of the key" }) }),
      response: { 200: Success },
    }),
    async (request) => {
      const id = parseId(request.params.key_id);
      const row = (await apiKeys.list(request.principal.userId)).find((one) => one.id === id);
      if (!row || !(await apiKeys.remove(row.id))) throw new PlatformError("ApiKeyUnknown");
      return { success: true };
    },
  );
}

/**
 * A new key's expiry: as requested, but not after its creator's (`limit`, null: never). Throws
 * InvalidInput, InvalidParameter.
 */
function resolveExpiry(text: string | null | undefined, limit: number | null): number | null {
  const asked = parseTimeParam(text ?? undefined, "expires_at", "body");
  if (asked === undefined) return limit;
  if (asked <= Date.now()) throw new PlatformError("KeyExpiryInPast");
  if (limit !== null && asked > limit) throw new PlatformError("KeyExpiryTooLate", { limit: isoTime(limit) });
  return asked;
}

function toApiKey(row: ApiKeyRow): ApiKey {
  return {
    id: row.id,
    name: row.name,
    created_at: isoTime(row.createdAt),
    expires_at: row.expiresAt === null ? null : isoTime(row.expiresAt),
    last_used_at: row.lastUsedAt === null ? null : isoTime(row.lastUsedAt),
    read_only: row.readOnly,
  };
}
