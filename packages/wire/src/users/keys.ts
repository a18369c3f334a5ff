import { type Static, Type } from "typebox";
import { Nullable } from "../common/schema.ts";

/** Name of an API key: what a person knows it by. */
const KeyName = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: "^[^\\u0000-\\u001f\\u007f]*[^\\s\\u0000-\\u001f\\u007f][^\\u0000-\\u001f\\u007f]*$",
});

/** An API key as lists show it; its text is shown only once, when it is made. */
export const ApiKey = Type.Object({
  id: Type.String(),
  name: Type.String(),
  created_at: Type.String({ format: "date-time" }),
  expires_at: Nullable(Type.String({ format: "date-time", description: "null: never" })),
  last_used_at: Nullable(Type.String({ format: "date-time", description: "to about a minute" })),
  read_only: Type.Boolean(),
});

/** Body of `POST /api/keys`. */
export const ApiKeyRequest = Type.Object({
  name: KeyName,
  expires_at: Type.Optional(
    Nullable(
      Type.String({
        maxLength: 40,
        // The handler accepts more forms of ISO-8601.
        "x-documented": { format: "date-time", examples: ["2099-12-31T23:59:59Z"] },
        description:
          "ISO-8601; absent or null: as long as the key that makes it. It cannot be later than that",
      }),
    ),
  ),
  read_only: Type.Optional(Nullable(Type.Boolean({ default: false }))),
});

/** Answer of `POST /api/keys`. */
export const NewApiKey = Type.Object({
  ...ApiKey.properties,
  key: Type.String({ description: "the key; shown only now" }),
});

const next = Type.Optional(
  Type.String({
    maxLength: 2048,
    description: "path on this server where a form goes on after the login; other texts mean the start page",
  }),
);

/** Body of `POST /login`. */
export const LoginRequest = Type.Union([
  Type.Object({ key: Type.String({ maxLength: 1024, description: "an API key" }), next }),
  Type.Object({
    link: Type.String({ maxLength: 100, description: "the text behind `#link=` of a login link" }),
    next,
  }),
]);

/** Answer of `POST /login` to a program; a browser gets a page. */
export const LoginAnswer = Type.Object({
  user: Nullable(Type.String({ description: "null: the implicit user" })),
  read_only: Type.Boolean(),
  expires_at: Type.String({ format: "date-time", description: "when the login ends" }),
});

/** Answer of `GET /api/keys/current`. */
export const CurrentApiKey = Type.Object({
  id: Type.String(),
  user_id: Type.String(),
  org_id: Type.String({ description: "the user's own organization: it has the user's id" }),
  read_only: Type.Boolean(),
});

/** Response of `GET /api/organizations`: each user has one organization without other members. */
export const OrganizationPage = Type.Object({
  items: Type.Array(Type.Object({ id: Type.String(), name: Type.String(), is_personal: Type.Boolean() })),
  next_page_id: Type.Null(),
  current_org_id: Type.String(),
});

/**
 * Response of `GET /api/organizations/{org_id}/provider-connections`: always empty, because each
 * LLM profile has its own key.
 */
export const ProviderConnections = Type.Object({ connections: Type.Array(Type.Unknown(), { maxItems: 0 }) });

/**
 * Response of `GET /api/organizations/{org_id}/me`. The holder of a read-only key is a member who
 * may only read.
 */
export const OrganizationMember = Type.Object({
  org_id: Type.String(),
  user_id: Type.String(),
  role: Type.Enum(["owner", "member"]),
  permissions: Type.Array(Type.Enum(["view_org_settings", "edit_org_settings"])),
  status: Type.Literal("active"),
});

export type ApiKey = Static<typeof ApiKey>;
export type ApiKeyRequest = Static<typeof ApiKeyRequest>;
export type NewApiKey = Static<typeof NewApiKey>;
export type LoginAnswer = Static<typeof LoginAnswer>;
