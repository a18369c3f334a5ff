import { type Static, Type } from "typebox";
import { Nullable, Page, StringEnum } from "../common/schema.ts";

/**
 * What a sandbox may reach; an extension. A credential shows its variable and hosts, never the
 * secret.
 */
export const SandboxNetwork = Type.Object({
  mode: StringEnum(["none", "allowlist", "open"]),
  allow: Type.Array(
    Type.Object({
      host: Type.String(),
      ports: Type.Array(Type.Integer()),
      methods: Nullable(Type.Array(Type.String())),
    }),
  ),
  credentials: Type.Array(Type.Object({ name: Type.String(), hosts: Type.Array(Type.String()) })),
  private: Type.Array(Type.String(), { description: "private address ranges that may be reached" }),
});

/** One request or tunnel of a sandbox and what the proxy made of it; an extension. */
export const NetworkDecision = Type.Object({
  seq: Type.Integer({
    description: "grows by one with each decision; a gap tells that some were too many to keep",
  }),
  at: Type.String({ format: "date-time" }),
  method: Type.String({ description: "CONNECT for a tunnel into which the proxy did not look" }),
  host: Type.String(),
  port: Type.Integer(),
  address: Nullable(Type.String({ description: "address that was connected to" })),
  decision: StringEnum(["allowed", "refused"]),
  reason: Nullable(Type.String({ description: "why it was refused or failed" })),
  bytes_up: Type.Integer(),
  bytes_down: Type.Integer(),
  duration_ms: Type.Integer(),
});

export const NetworkDecisionPage = Page(NetworkDecision);

export type SandboxNetwork = Static<typeof SandboxNetwork>;
export type NetworkDecision = Static<typeof NetworkDecision>;
