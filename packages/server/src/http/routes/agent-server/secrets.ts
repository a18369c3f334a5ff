import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxSecret } from "@sandpiper/sandbox/network/sandbox-secret";
import { CustomSecretCreate, Deleted, SandboxSecretNames } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { Principal } from "../../server/principal.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { listNames, ProfileScope, sendSecret } from "../v1/sandbox-secrets.ts";

const { name, description, value } = CustomSecretCreate.properties;
const SecretPath = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 128, description: "name of the secret" }),
});

/**
 * Secrets that apply in the sandbox, including provider tokens (agent-server.md section 9). Secrets
 * stored here are the user's and apply in all sandboxes.
 */
export function agentSecretRoutes(
  app: App,
  { secrets, encryptedValues, settings }: Pick<HttpServices, "secrets" | "encryptedValues" | "settings">,
): void {
  const route = makeRoute(["secrets"], { access: "agent" }, { view: "agent" });
  const url = "/api/settings/secrets";

  const all = ({ userId, sandboxId }: Principal): Promise<readonly SandboxSecret[]> =>
    secrets.forSandbox(userId, sandboxId ?? "");

  app.get(
    url,
    route(
      "List the secrets of the sandbox, without their values",
      {
        querystring: ProfileScope,
        response: { 200: SandboxSecretNames },
      },
      { failures: [404] },
    ),
    async ({ principal, query }) => ({
      secrets: await listNames(settings, principal.userId, await all(principal), query),
    }),
  );
  app.get(
    `${url}/:name`,
    route(
      "Read the value of a secret",
      { params: SecretPath, produces: ["text/plain"], response: { 200: Type.String() } },
      { grantsAccess: true, failures: [403, 404] },
    ),
    async ({ principal, params }, reply) => {
      const found = (await all(principal)).find((secret) => secret.name === params.name);
      if (!found) throw new PlatformError("SecretUnknown");
      sendSecret(reply, found.value);
      return reply;
    },
  );
  app.put(
    url,
    route(
      "Store a secret; replaces one of the same name",
      {
        body: Type.Object({ name, description, value }),
        response: { 200: SandboxSecretNames.properties.secrets.items },
      },
      { failures: [409] },
    ),
    async ({ principal: { userId }, body }) => {
      await secrets.put(
        userId,
        { ...pickFields(body), value: encryptedValues.decrypt(userId, body.value) },
        { replace: true },
      );
      const stored = (await secrets.list(userId)).find((secret) => secret.name === body.name);
      return { name: body.name, description: stored?.description ?? null };
    },
  );
  app.delete(
    `${url}/:name`,
    route(
      "Delete a secret of the user",
      { params: SecretPath, response: { 200: Deleted } },
      { failures: [404] },
    ),
    async ({ principal, params }) => {
      await secrets.remove(principal.userId, params.name);
      return { deleted: true };
    },
  );
}

/** Keeps only known fields: bodies may have more. */
function pickFields({ name, description }: { name: string; description?: string | null | undefined }) {
  return { name, ...(description !== undefined && { description }) };
}
