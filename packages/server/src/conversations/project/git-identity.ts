import type { AgentPreferences } from "../../users/api.ts";
import type { GitIdentity } from "./clone.ts";

/** Author of commits where the settings name none. */
const fallback: GitIdentity = { name: "openhands", email: "openhands@all-hands.dev" };

/** Author of the commits that are made for a user. */
export function gitIdentity({
  gitUserName,
  gitUserEmail,
}: Pick<AgentPreferences, "gitUserName" | "gitUserEmail">): GitIdentity {
  return { name: gitUserName?.trim() || fallback.name, email: gitUserEmail?.trim() || fallback.email };
}
