import { type Static, Type } from "typebox";
import { StringEnum } from "../common/schema.ts";
import { securityRisks } from "../events/event.ts";

/** When an agent has to ask before it acts (agent-behaviour.md section 5). */
export const ConfirmationPolicy = Type.Union([
  Type.Object({ kind: Type.Literal("NeverConfirm") }),
  Type.Object({ kind: Type.Literal("AlwaysConfirm") }),
  Type.Object({
    kind: Type.Literal("ConfirmRisky"),
    threshold: Type.Optional(
      StringEnum(securityRisks.slice(1) as ["LOW", "MEDIUM", "HIGH"], { default: "HIGH" }),
    ),
    confirm_unknown: Type.Optional(Type.Boolean({ default: true })),
  }),
]);

/**
 * The analyzer that rates the risk of actions; only its kind has an effect, other fields are kept
 * for clients (agent-server.md section 3).
 */
export const SecurityAnalyzer = Type.Object(
  { kind: Type.String({ minLength: 1, maxLength: 100 }) },
  { additionalProperties: true },
);

export const SetConfirmationPolicyRequest = Type.Object({ policy: ConfirmationPolicy });
export const SetSecurityAnalyzerRequest = Type.Object({
  security_analyzer: Type.Union([SecurityAnalyzer, Type.Null()]),
});

export type ConfirmationPolicy = Static<typeof ConfirmationPolicy>;
export type SecurityAnalyzer = Static<typeof SecurityAnalyzer>;
