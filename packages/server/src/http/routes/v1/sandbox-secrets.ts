import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxSecret } from "@sandpiper/sandbox/network/sandbox-secret";
import { SandboxSecretNames } from "@sandpiper/wire";
import { type Static, Type } from "typebox";
import { limitSecrets } from "../../../users/secrets-document.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { Principal } from "../../server/principal.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { normalizeSandboxId } from "./sandboxes.ts";

const url = "/api/v1/sandboxes/:sandbox_id/settings/secrets";
const SandboxPath = Type.Object({ sandbox_id: Type.String() });

/**
 * A sandbox's secrets, for its session key and its user (app-server.md section 4): the user's
 * secrets, provider tokens under names such as `github_token`, and secrets of its conversations.
 * The session key never enters the sandbox.
 */
export function sandboxSecretRoutes(
  app: App,
  { sandboxes, secrets, settings }: Pick<HttpServices, "sandboxes" | "secrets" | "settings">,
): void {
  const route = makeRoute(["sandboxes"], { access: "agent", failures: [403] });

  const all = async (
    { userId, sandboxId: own }: Principal,
    text: string,
  ): Promise<readonly SandboxSecret[]> => {
    const id = normalizeSandboxId(text);
    if (own !== undefined && own !== id) throw new PlatformError("SandboxKeyForeign");
    if (!(await sandboxes.get(userId, id))) throw new PlatformError("SandboxUnknown");
    return secrets.forSandbox(userId, id);
  };

  app.get(
    url,
    route("List the secrets of a sandbox, without their values", {
      params: SandboxPath,
      querystring: ProfileScope,
      response: { 200: SandboxSecretNames },
    }),
    async ({ principal, params, query }) => ({
      secrets: await listNames(settings, principal.userId, await all(principal, params.sandbox_id), query),
    }),
  );
  app.get(
    `${url}/:secret_name`,
    route(
      "Read the value of a secret of a sandbox",
      {
        params: Type.Object({ ...SandboxPath.properties, secret_name: Type.String() }),
        produces: ["text/plain"],
        response: { 200: Type.String() },
      },
      { grantsAccess: true },
    ),
    async (request, reply) => {
      const { sandbox_id, secret_name } = request.params;
      const found = (await all(request.principal, sandbox_id)).find(({ name }) => name === secret_name);
      if (!found) throw new PlatformError("SecretUnknown");
      sendSecret(reply, found.value);
      return reply;
    },
  );
}

/** A query that limits a list to the `secret_refs` of an agent profile. */
export const ProfileScope = Type.Object({
  agent_profile_id: Type.Optional(
    Type.String({ maxLength: 128, description: "only the secrets that this agent profile names" }),
  ),
});

/** Names and descriptions of secrets, of those of an agent profile. Throws ProfileNotFound. */
export async function listNames(
  { agentProfiles }: Pick<HttpServices["settings"], "agentProfiles">,
  userId: string,
  secrets: readonly SandboxSecret[],
  { agent_profile_id: id }: Static<typeof ProfileScope>,
): Promise<Static<typeof SandboxSecretNames>["secrets"]> {
  const profile = id ? await agentProfiles.byId(userId, id) : undefined;
  if (id && !profile) throw new PlatformError("AgentProfileIdUnknown", { id: id.slice(0, 64) });
  const scope = profile?.secret_refs;
  const found = limitSecrets(secrets, scope ? [scope] : []);
  return found.map(({ name, description }) => ({ name, description }));
}

/** Sends a secret as plain text that must not be cached. */
export function sendSecret(
  reply: { header(name: string, value: string): unknown; send(value: string): unknown },
  value: string,
): void {
  reply.header("content-type", "text/plain; charset=utf-8");
  reply.header("x-content-type-options", "nosniff");
  reply.send(value);
}
