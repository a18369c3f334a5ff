import type { Action, SecurityRisk } from "@sandpiper/wire";

/** A call that is about to be proposed, as an analyzer sees it. */
export interface AssessedCall {
  toolName: string;
  action: Action;
  /** The tool cannot change anything. */
  readOnly: boolean;
  /** The model's own estimate; UNKNOWN where it gave none. */
  claimed: SecurityRisk;
}

/** Judges how risky actions are (agent-behaviour.md section 5). One that throws counts as HIGH. */
export interface Analyzer {
  assess(call: AssessedCall): SecurityRisk | Promise<SecurityRisk>;
}

/** Takes the model's own estimate. */
export const llmAnalyzer: Analyzer = { assess: ({ claimed }) => claimed };

/** The risk of a call: UNKNOWN without an analyzer, HIGH where it fails. */
export async function assess(analyzer: Analyzer | undefined, call: AssessedCall): Promise<SecurityRisk> {
  if (!analyzer) return "UNKNOWN";
  try {
    return await analyzer.assess(call);
  } catch {
    return "HIGH";
  }
}
