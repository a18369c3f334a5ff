/** What a rule can find in a call, by id. */
export const findings = {
  "pipe-to-shell": "runs downloaded or encoded code that was not read before",
  "remote-shell": "gives another machine a shell",
  "destroy-files": "deletes or overwrites the root, a home folder, the workspace, the system or a disk",
  "read-credentials": "reads keys, tokens, passwords or cloud metadata",
  "send-data": "sends files, the environment or secrets to another machine",
  "destroy-remote": "overwrites or deletes remote git history or resources of a cloud",
  "foreign-package": "installs from a foreign source, or changes where packages come from",
  "change-system": "gains privileges, reaches the host or changes the system",
  "run-later": "installs something that runs later without a call",
  publish: "publishes a package, an image or a release",
  "private-address": "opens an address of a private network",
  "destructive-tool": "calls an MCP tool that its server marks as destructive",
  unreadable: "is too long or too deeply nested to be read",
} as const;

export type RiskFinding = keyof typeof findings;

/** What the rules find in an action, and its risk when they find nothing. */
export interface RuleRisk {
  findings: readonly RiskFinding[];
  usual: "LOW" | "MEDIUM";
}

export const lowRisk: RuleRisk = { findings: [], usual: "LOW" };
