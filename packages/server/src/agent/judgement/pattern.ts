import type { SecurityRisk } from "@sandpiper/wire";
import type { Analyzer, AssessedCall } from "./analyzer.ts";
import { namesMetadata } from "./rules/addresses.ts";
import { judgeEdit, judgePatch } from "./rules/file-changes.ts";
import { isCredentialPath } from "./rules/paths.ts";
import { judgeAddress } from "./rules/web.ts";
import { changesNothing } from "./shell/read-only.ts";
import { type Finding, judgeScript } from "./shell-rules.ts";

/** What rules find in a call, without any model; empty: nothing. */
export function findingsOf({ action, destructive }: AssessedCall): readonly Finding[] {
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
      return [...(destructive ? (["destroys, as its server says"] as const) : []), ...judgeData(action.data)];
    default:
      return [];
  }
}

/**
 * Judges without any model (agent-behaviour.md section 5): HIGH for what a rule finds, LOW for what only reads, and MEDIUM for the rest, which stays inside of the
 * sandbox.
 */
export const patternAnalyzer: Analyzer = {
  assess: (call) => (findingsOf(call).length > 0 ? "HIGH" : usualRisk(call)),
};

/** The few rules that no policy should let pass: HIGH for what they find, and LOW. */
export const policyRailAnalyzer: Analyzer = {
  assess: (call) => (findingsOf(call).some((finding) => rails.has(finding)) ? "HIGH" : "LOW"),
};

const rails: ReadonlySet<Finding> = new Set<Finding>([
  "runs what nobody has read",
  "hands a shell to somebody else",
  "deletes everything",
  "breaks the machine",
  "cannot be read whole",
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
  if (action.kind === "TerminalAction") return changesNothing(judgeScript(action.command).analysis) ? "LOW" : "MEDIUM";
  return action.kind === "FileEditorAction" && action.command === "view" ? "LOW" : "MEDIUM";
}

/** Names under which tools of servers take commands. */
const commandNames = /^(?:command|cmd|script|shell|bash|code)$/i;
const maxTexts = 500;

/** What stands in the arguments of a server's tool. */
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
    if (isCredentialPath(value) || isCredentialPath(value.replace(/^file:\/\//, "")) || namesMetadata(value.slice(0, 10_000)))
      findings.add("reads credentials");
    if (commandNames.test(name)) for (const finding of judgeScript(value).findings) findings.add(finding);
  }
  return [...findings];
}
