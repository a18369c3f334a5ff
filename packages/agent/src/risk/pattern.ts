import type { SecurityRisk } from "@sandpiper/wire";
import { judgeAddress, namesMetadata } from "./addresses.ts";
import type { Analyzer, AssessedCall } from "./analyzer.ts";
import { judgeEdit, judgePatch } from "./edit-rules.ts";
import type { Finding } from "./findings.ts";
import { isCredentialPath } from "./paths.ts";
import { isReadOnly } from "./read-only.ts";
import { judgeScript } from "./shell-rules.ts";

/** What the rules find in a call, without a model. */
export function judgeCall({ action, destructive }: AssessedCall): readonly Finding[] {
  switch (action.kind) {
    case "TerminalAction":
      return judgeScript(action.command).findings;
    case "FileEditorAction":
    case "PlanningFileEditorAction":
      return judgeEdit(action);
    case "ApplyPatchAction":
      return judgePatch(action.patch);
    case "BrowserNavigateAction":
      return judgeAddress(action.url);
    case "MCPToolAction":
      return [...(destructive ? (["destructive-tool"] as const) : []), ...judgeData(action.data)];
    default:
      return [];
  }
}

/** Judges without a model (agent-behaviour.md section 5): HIGH with a finding, LOW for a call that only reads, else MEDIUM. */
export const patternAnalyzer: Analyzer = {
  assess: (call) => (judgeCall(call).length > 0 ? "HIGH" : usualRisk(call)),
};

/** HIGH with a finding of the worst rules, else LOW. */
export const policyRailAnalyzer: Analyzer = {
  assess: (call) => (judgeCall(call).some((finding) => rails.has(finding)) ? "HIGH" : "LOW"),
};

const rails: ReadonlySet<Finding> = new Set<Finding>([
  "pipe-to-shell",
  "remote-shell",
  "destroy-files",
  "unreadable",
]);

const quietActions = new Set([
  "FinishAction",
  "ThinkAction",
  "TaskTrackerAction",
  "TaskAction",
  "SwitchLLMAction",
  "InvokeSkillAction",
]);

function usualRisk({ action, readOnly }: AssessedCall): SecurityRisk {
  if (readOnly || quietActions.has(action.kind)) return "LOW";
  if (action.kind === "TerminalAction")
    return isReadOnly(judgeScript(action.command).script) ? "LOW" : "MEDIUM";
  return action.kind === "FileEditorAction" && action.command === "view" ? "LOW" : "MEDIUM";
}

/** Argument names under which MCP tools take commands. */
const commandNames = /^(?:command|cmd|script|shell|bash|code)$/i;
const maxTexts = 500;

/** What the rules find in the arguments of an MCP tool. */
function judgeData(data: Readonly<Record<string, unknown>>): Finding[] {
  const findings = new Set<Finding>();
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
