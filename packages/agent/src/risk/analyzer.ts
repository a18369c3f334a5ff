import { type Action, type SecurityRisk, securityRisks } from "@sandpiper/wire";
import type { RuleRisk } from "./findings.ts";

/** A proposed call, as an analyzer sees it. */
export interface AssessedCall {
  tool: { readonly readOnly: boolean; risk?(action: Action): RuleRisk };
  action: Action;
  /** The model's own estimate; UNKNOWN when it gave none. */
  claimed: SecurityRisk;
}

/** Judges how risky actions are (agent-behaviour.md section 5). One that throws counts as HIGH. */
export interface Analyzer {
  assess(call: AssessedCall): SecurityRisk | Promise<SecurityRisk>;
}

/** Returns the model's own estimate. */
export const llmAnalyzer: Analyzer = { assess: ({ claimed }) => claimed };

export const unknownAnalyzer: Analyzer = { assess: () => "UNKNOWN" };

/**
 * The highest risk of the members; one that throws sees HIGH. UNKNOWN counts when all agree, or
 * when `propagateUnknown` is set and none sees HIGH.
 */
export function ensembleAnalyzer(members: readonly Analyzer[], { propagateUnknown = false } = {}): Analyzer {
  return {
    async assess(call) {
      const risks = await Promise.all(members.map((member) => assess(member, call)));
      const highest = risks.reduce<SecurityRisk>(
        (most, risk) => (rank(risk) > rank(most) ? risk : most),
        "UNKNOWN",
      );
      return propagateUnknown && highest !== "HIGH" && risks.includes("UNKNOWN") ? "UNKNOWN" : highest;
    },
  };
}

const rank = (risk: SecurityRisk) => securityRisks.indexOf(risk);

/** The risk of a call: UNKNOWN without an analyzer, HIGH when the analyzer throws. */
export async function assess(analyzer: Analyzer | undefined, call: AssessedCall): Promise<SecurityRisk> {
  if (!analyzer) return "UNKNOWN";
  try {
    return await analyzer.assess(call);
  } catch {
    return "HIGH";
  }
}
