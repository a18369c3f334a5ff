import { PlatformError } from "@sandpiper/core/errors";
import type { SecurityAnalyzer } from "@sandpiper/wire";
import {
  type Analyzer,
  type AssessedCall,
  assess,
  ensembleAnalyzer,
  llmAnalyzer,
  unknownAnalyzer,
} from "./analyzer.ts";
import { patternAnalyzer, policyRailAnalyzer, ruleRisk } from "./pattern.ts";

/** Depth of ensembles in ensembles, and members of one. */
const maxDepth = 3;
const maxMembers = 20;

const kinds: Readonly<Record<string, Analyzer>> = {
  LLMSecurityAnalyzer: llmAnalyzer,
  ToolShieldLLMSecurityAnalyzer: llmAnalyzer,
  PatternSecurityAnalyzer: patternAnalyzer,
  PolicyRailSecurityAnalyzer: policyRailAnalyzer,
};

/** The analyzers by their names in the settings; any other name means no analyzer. */
const named: Readonly<Record<string, SecurityAnalyzer & { analyzers?: SecurityAnalyzer[] }>> = {
  llm: { kind: "LLMSecurityAnalyzer" },
  pattern: { kind: "PatternSecurityAnalyzer" },
  invariant: { kind: "PatternSecurityAnalyzer" },
  policy_rail: { kind: "PolicyRailSecurityAnalyzer" },
  ensemble: {
    kind: "EnsembleSecurityAnalyzer",
    analyzers: [{ kind: "PatternSecurityAnalyzer" }, { kind: "LLMSecurityAnalyzer" }],
  },
};

/** The analyzer of a name in the settings, as agent-server clients describe it. */
export function namedAnalyzer(name: string | null): SecurityAnalyzer | undefined {
  return name !== null && Object.hasOwn(named, name) ? named[name] : undefined;
}

/** The analyzer that a client describes, never below the rules; unknown ones apply the rules. */
export function chooseAnalyzer(described: SecurityAnalyzer): Analyzer {
  return withRules(build(described, 0) ?? unknownAnalyzer);
}

/** Throws InvalidParameter for an analyzer that this server does not have. */
export function checkAnalyzer(described: SecurityAnalyzer): void {
  if (build(described, 0)) return;
  throw new PlatformError("AnalyzerUnknown", { kind: described.kind, maxMembers });
}

type Described = SecurityAnalyzer & Record<string, unknown>;

function build(described: SecurityAnalyzer, depth: number): Analyzer | undefined {
  const { kind, analyzers, propagate_unknown: propagateUnknown } = described as Described;
  if (kind !== "EnsembleSecurityAnalyzer") return Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
  if (!Array.isArray(analyzers) || analyzers.length === 0 || analyzers.length > maxMembers) return undefined;
  if (depth >= maxDepth) return undefined;
  const members = analyzers.map((one) => (typeof one?.kind === "string" ? build(one, depth + 1) : undefined));
  if (members.some((member) => member === undefined)) return undefined;
  return ensembleAnalyzer(members as Analyzer[], { propagateUnknown: propagateUnknown === true });
}

function withRules(analyzer: Analyzer): Analyzer {
  return {
    async assess(call: AssessedCall) {
      return ruleRisk(call).findings.length > 0 ? "HIGH" : assess(analyzer, call);
    },
  };
}
