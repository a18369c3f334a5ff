import { type Static, Type } from "typebox";
import { Nullable, Page, StringEnum } from "../common/schema.ts";
import { providerTypes } from "../sandboxes/git.ts";
import { McpConfig } from "../settings/settings.ts";

/** Longest value of a secret, characters. */
const maxValue = 65_536;

/** Secrets are environment variables in sandboxes, so their names are names of variables. */
export const SecretName = Type.String({
  pattern: "^[A-Za-z_][A-Za-z0-9_]{0,127}$",
  description: "name of the environment variable that holds its placeholder in sandboxes",
});

const Value = Type.String({ minLength: 1, maxLength: maxValue, format: "password", writeOnly: true });
const Description = Type.Optional(Nullable(Type.String({ maxLength: 2_000 })));
const label = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?";
const Hosts = Type.Optional(
  Nullable(
    Type.Array(Type.String({ maxLength: 253, pattern: `^(?:\\*\\.)?(?:${label}\\.)*${label}$` }), {
      maxItems: 32,
      description:
        "an extension: hosts to which the egress proxy may send the value (`example.com`, `*.example.com`); null: those that the sandbox's allow rules name",
    }),
  ),
);

const HeaderNames = Type.Optional(
  Nullable(
    Type.Array(Type.String({ minLength: 1, maxLength: 100, pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" }), {
      maxItems: 16,
      description:
        "an extension: request headers in which the egress proxy may send the value besides those for authentication (`Authorization`, `X-API-Key`, …)",
    }),
  ),
);

const Plain = Type.Optional(
  Type.Boolean({
    description:
      "an extension: true gives the value itself to every program in your sandboxes, instead of a placeholder",
  }),
);

/** Body of `POST /api/v1/secrets` (app-server.md section 6). */
export const CustomSecretCreate = Type.Object({
  name: SecretName,
  description: Description,
  value: Value,
  hosts: Hosts,
  headers: HeaderNames,
  plain: Plain,
});

/** Body of `PUT /api/v1/secrets/{id}`: what is left out stays as it is. */
export const CustomSecretUpdate = Type.Object({
  name: SecretName,
  description: Description,
  hosts: Hosts,
  headers: HeaderNames,
  plain: Plain,
});

/** A secret as clients see it. */
export const CustomSecretInfo = Type.Object({
  name: Type.String(),
  description: Nullable(Type.String()),
  hosts: Nullable(Type.Array(Type.String())),
  headers: Nullable(Type.Array(Type.String())),
  plain: Type.Boolean({ default: false, description: "its value is inside sandboxes" }),
});
export const CustomSecretPage = Page(CustomSecretInfo);

/** The V0 family knows no hosts (legacy-gui.md section 8). */
export const LegacySecretCreate = Type.Object({ name: SecretName, description: Description, value: Value });
export const LegacySecretUpdate = Type.Object({ name: SecretName, description: Description });
export const LegacySecrets = Type.Object({
  custom_secrets: Type.Array(Type.Object({ name: Type.String(), description: Nullable(Type.String()) })),
});

/** A token of a git provider; an absent or empty one keeps the stored one. */
export const ProviderTokenInput = Type.Object({
  token: Type.Optional(Nullable(Type.String({ maxLength: 16_384, format: "password", writeOnly: true }))),
  user_id: Type.Optional(Nullable(Type.String({ maxLength: 256 }))),
  host: Type.Optional(Nullable(Type.String({ maxLength: 260 }))),
});

/**
 * Body of `POST /api/v1/secrets/git-providers` and V0 `POST /api/add-git-providers`: the complete
 * set of the user's providers.
 */
export const ProviderTokens = Type.Object({
  mcp_config: Type.Optional(Nullable(Type.Partial(McpConfig))),
  provider_tokens: Type.Optional(
    Nullable(
      // A misspelt provider would drop the one that was meant.
      Type.Object(
        Object.fromEntries(providerTypes.map((type) => [type, Type.Optional(Nullable(ProviderTokenInput))])),
        {
          additionalProperties: false,
        },
      ),
    ),
  ),
});

/** Answer of `GET /api/v1/sandboxes/{id}/settings/secrets` (app-server.md section 4). */
export const SandboxSecretNames = Type.Object({
  secrets: Type.Array(Type.Object({ name: Type.String(), description: Nullable(Type.String()) })),
});

/** Answer of changes to secrets. */
export const EditResponse = Type.Object({ message: Type.String() });

/** Body of `POST /api/v1/webhooks/secrets`; an extension. */
export const ProviderAccessRequest = Type.Object({ provider: StringEnum(providerTypes) });
export const ProviderAccess = Type.Object({
  access_token: Type.String({ description: "for the header X-Access-Token of GET /api/v1/webhooks/secrets" }),
  expires_at: Type.String({ format: "date-time" }),
});

export type CustomSecretCreate = Static<typeof CustomSecretCreate>;
export type CustomSecretInfo = Static<typeof CustomSecretInfo>;
export type ProviderTokenInput = Static<typeof ProviderTokenInput>;
export type ProviderTokens = Static<typeof ProviderTokens>;
