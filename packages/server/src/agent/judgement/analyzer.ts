import { type Action, type SecurityRisk, securityRisks } from "@sandpiper/wire";

/** A call that is about to be proposed, as an analyzer sees it. */
export interface AssessedCall {
  toolName: string;
  action: Action;
  /** The tool cannot change anything. */
  readOnly: boolean;
  /** The tool's server says that it destroys something. */
  destructive?: boolean | undefined;
  /** The model's own estimate; UNKNOWN where it gave none. */
  claimed: SecurityRisk;
}

/** Judges how risky actions are (agent-behaviour.md section 5). One that throws counts as HIGH. */
export interface Analyzer {
  assess(call: AssessedCall): SecurityRisk | Promise<SecurityRisk>;
}

/** Takes the model's own estimate. */
export const llmAnalyzer: Analyzer = { assess: ({ claimed }) => claimed };

/** Knows nothing. */
export const unknownAnalyzer: Analyzer = { assess: () => "UNKNOWN" };

/**
 * The highest risk that one of several analyzers sees; one that fails sees HIGH. One that knows nothing does not count, unless none knows anything, or
 * `propagateUnknown` is set and no other sees HIGH.
 */
export function ensembleAnalyzer(members: readonly Analyzer[], { propagateUnknown = false } = {}): Analyzer {
  return {
    async assess(call) {
      const risks = await Promise.all(members.map((member) => assess(member, call)));
      const highest = risks.reduce<SecurityRisk>((most, risk) => (rank(risk) > rank(most) ? risk : most), "UNKNOWN");
      // What is known to be dangerous does not become less so.
      return propagateUnknown && highest !== "HIGH" && risks.includes("UNKNOWN") ? "UNKNOWN" : highest;
    },
  };
}

const rank = (risk: SecurityRisk) => securityRisks.indexOf(risk);

/** The risk of a call: UNKNOWN without an analyzer, HIGH where it fails. */
export async function assess(analyzer: Analyzer | undefined, call: AssessedCall): Promise<SecurityRisk> {
  if (!analyzer) return "UNKNOWN";
  try {
    return await analyzer.assess(call);
  } catch {
    return "HIGH";
  }
}
