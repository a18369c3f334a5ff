import { type ActionEvent, type ConfirmationPolicy, securityRisks } from "@sandpiper/wire";
import { toolRegistry } from "../tools/registry.ts";

/** Analyzers that rate HIGH; with any other, every action needs confirmation. */
const judging = new Set(["llm", "pattern", "policy_rail", "ensemble"]);

/** The policy of the settings (agent-behaviour.md section 5, last point). */
export function policyFromSettings(
  confirmationMode: boolean | null,
  analyzer: string | null,
): ConfirmationPolicy {
  if (!confirmationMode) return { kind: "NeverConfirm" };
  return judging.has(analyzer ?? "")
    ? { kind: "ConfirmRisky", threshold: "HIGH", confirm_unknown: true }
    : { kind: "AlwaysConfirm" };
}

/** Whether a batch waits for the user. A single finish or think never does. */
export function needsConfirmation(policy: ConfirmationPolicy, batch: readonly ActionEvent[]): boolean {
  const actions = batch.filter((event) => event.action);
  if (policy.kind === "NeverConfirm" || actions.length === 0) return false;
  if (batch.length === 1 && toolRegistry.roleOf(batch[0]!.tool_name)) return false;
  if (policy.kind === "AlwaysConfirm") return true;
  const { threshold = "HIGH", confirm_unknown: confirmUnknown = true } = policy;
  return actions.some(({ security_risk: risk }) =>
    risk === "UNKNOWN" ? confirmUnknown : securityRisks.indexOf(risk) >= securityRisks.indexOf(threshold),
  );
}
