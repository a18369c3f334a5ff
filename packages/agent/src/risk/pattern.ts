import { namesMetadata } from "./addresses.ts";
import type { Analyzer, AssessedCall } from "./analyzer.ts";
import type { RiskFinding, RuleRisk } from "./findings.ts";
import { isCredentialPath } from "./paths.ts";
import { isReadOnly } from "./read-only.ts";
import { judgeScript } from "./shell-rules.ts";

/** The risk of a call by the rules alone. */
export function ruleRisk({ tool, action }: AssessedCall): RuleRisk {
  return tool.risk?.(action) ?? { findings: [], usual: tool.readOnly ? "LOW" : "MEDIUM" };
}

export function commandRisk(command: string): RuleRisk {
  const { findings, script } = judgeScript(command);
  return { findings, usual: isReadOnly(script) ? "LOW" : "MEDIUM" };
}

/** The risk by rules alone: HIGH, LOW for reads, else MEDIUM (agent-behaviour.md section 5). */
export const patternAnalyzer: Analyzer = {
  assess(call) {
    const { findings, usual } = ruleRisk(call);
    return findings.length > 0 ? "HIGH" : usual;
  },
};

/** HIGH with a finding of the worst rules, else LOW. */
export const policyRailAnalyzer: Analyzer = {
  assess: (call) => (ruleRisk(call).findings.some((finding) => rails.has(finding)) ? "HIGH" : "LOW"),
};

const rails: ReadonlySet<RiskFinding> = new Set<RiskFinding>([
  "pipe-to-shell",
  "remote-shell",
  "destroy-files",
  "unreadable",
]);

/** Argument names under which MCP tools take commands. */
const commandNames = /^(?:command|cmd|script|shell|bash|code)$/i;
const maxTexts = 500;

/** What the rules find in the arguments of an MCP tool. */
export function judgeArguments(data: Readonly<Record<string, unknown>>): RiskFinding[] {
  const findings = new Set<RiskFinding>();
  const waiting: [string, unknown][] = Object.entries(data);
  for (let seen = 0; waiting.length > 0 && seen < maxTexts; seen++) {
    const [name, value] = waiting.pop()!;
    if (typeof value === "object" && value !== null)
      waiting.push(
        ...Object.entries(value)
          .slice(0, maxTexts)
          .map(([key, item]): [string, unknown] => [Array.isArray(value) ? name : key, item]),
      );
    if (typeof value !== "string") continue;
    if (
      isCredentialPath(value) ||
      isCredentialPath(value.replace(/^file:\/\//, "")) ||
      namesMetadata(value.slice(0, 10_000))
    )
      findings.add("read-credentials");
    if (commandNames.test(name)) for (const finding of judgeScript(value).findings) findings.add(finding);
  }
  return [...findings];
}
