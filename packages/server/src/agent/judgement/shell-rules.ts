import { readsCredentials } from "./rules/credentials.ts";
import { breaksMachine, deletesAll, destroysElsewhere, reachesHost, wipesHistory } from "./rules/destruction.ts";
import { fetchesCode, isReverseShell, runsFromAddress, runsUnread } from "./rules/execution.ts";
import { sendsOut } from "./rules/exfiltration.ts";
import { changesPackageSources, persists, publishes } from "./rules/supply-chain.ts";
import { rewritesRemote } from "./rules/version-control.ts";
import { type Analysis, analyseScript } from "./shell/analysis.ts";

/** What a rule found in a call. */
export type Finding =
  | "runs what nobody has read"
  | "hands a shell to somebody else"
  | "overwrites or deletes at a remote"
  | "reads credentials"
  | "sends data out"
  | "deletes everything"
  | "breaks the machine"
  | "reaches the host or changes the system"
  | "destroys what runs elsewhere"
  | "wipes traces"
  | "publishes"
  | "changes the sources or scripts of packages"
  | "leaves something that runs later"
  | "asks an address of the inside"
  | "hides data in an address"
  | "destroys, as its server says"
  | "cannot be read whole";

const rules: readonly [Finding, (analysis: Analysis, text: string) => boolean][] = [
  [
    "runs what nobody has read",
    (analysis, text) => runsUnread(analysis, text) || fetchesCode(analysis) || runsFromAddress(analysis),
  ],
  ["hands a shell to somebody else", isReverseShell],
  ["overwrites or deletes at a remote", rewritesRemote],
  ["reads credentials", readsCredentials],
  ["sends data out", sendsOut],
  ["deletes everything", deletesAll],
  ["breaks the machine", breaksMachine],
  ["reaches the host or changes the system", reachesHost],
  ["destroys what runs elsewhere", destroysElsewhere],
  ["wipes traces", wipesHistory],
  ["publishes", publishes],
  ["changes the sources or scripts of packages", changesPackageSources],
  ["leaves something that runs later", persists],
  ["cannot be read whole", ({ unreadable }) => unreadable],
];

/** What is dangerous about a shell script. */
export function judgeScript(text: string): { findings: Finding[]; analysis: Analysis } {
  const analysis = analyseScript(text);
  return { findings: rules.filter(([, applies]) => applies(analysis, text)).map(([finding]) => finding), analysis };
}
