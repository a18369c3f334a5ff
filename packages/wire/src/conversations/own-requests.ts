import { type Static, Type } from "typebox";
import { Nullable } from "../common/schema.ts";

/** Body of `POST /api/cloud-proxy`: a request to the agent-server surface of this server. */
export const OwnRequest = Type.Object({
  host: Type.String({
    maxLength: 2_000,
    description: "the address of this server, as conversations show it",
  }),
  method: Type.Enum(["GET", "POST", "PUT", "PATCH", "DELETE"]),
  path: Type.String({
    maxLength: 16_000,
    description: "below `/api/conversations/` or `/api/git/`, with the query",
  }),
  headers: Type.Optional(
    Nullable(
      Type.Record(Type.String(), Type.String({ maxLength: 4_000 }), {
        description: "`Authorization` and `X-Session-API-Key`; others are ignored",
      }),
    ),
  ),
  body: Type.Optional(Type.Unknown({ description: "JSON; null is none" })),
});

export type OwnRequest = Static<typeof OwnRequest>;
