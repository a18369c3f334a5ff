import type { FileEditorAction } from "@sandpiper/wire";
import type { RiskFinding } from "./findings.ts";
import { isCredentialPath, isRegistryPath, isStartupPath, isSystemPath } from "./paths.ts";

/** A script of package.json that runs when the package is installed or packed. */
const installScript =
  /"(?:pre|post)?install"\s{0,20}:|"(?:pre|post)pack"\s{0,20}:|"prepublish\w{0,10}"\s{0,20}:/;

type EditorAction = Pick<FileEditorAction, "command" | "path" | "file_text" | "new_str">;

/** What the rules find in a call of a file editor. */
export function judgeEdit({ command, path, file_text, new_str }: EditorAction): RiskFinding[] {
  if (command === "view") return isCredentialPath(path) ? ["read-credentials"] : [];
  return judgeChange(path, file_text ?? new_str ?? "");
}

/** What the rules find in a patch: in its files and the lines that it adds. */
export function judgePatch(patch: string): RiskFinding[] {
  const findings = new Set<RiskFinding>();
  let path = "";
  let added = "";
  const judgeFile = () => {
    for (const finding of path === "" ? [] : judgeChange(path, added)) findings.add(finding);
  };
  for (const line of patch.split("\n")) {
    const header = /^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.{1,1000})$/.exec(line)?.[1];
    if (header !== undefined) {
      judgeFile();
      path = header.trim();
      added = "";
    } else if (line.startsWith("+")) added += `${line.slice(1)}\n`;
  }
  judgeFile();
  return [...findings];
}

function judgeChange(path: string, added: string): RiskFinding[] {
  const findings: RiskFinding[] = [];
  if (isStartupPath(path)) findings.push("run-later");
  if (isSystemPath(path)) findings.push("change-system");
  const runsAtInstall = /(?:^|\/)package\.json$/.test(path) && installScript.test(added);
  if (isRegistryPath(path) || runsAtInstall) findings.push("foreign-package");
  return findings;
}
