import type { GroupingStrategy } from "@sandpiper/wire";

export interface GroupingCandidate {
  id: string;
  createdAt: number;
  conversations: number;
}

/** Maximum conversations of a shared sandbox (app-server.md section 4, reuse rule 2). */
const maxConversations = 20;

/** The sandbox that a new conversation joins; undefined for a new sandbox. */
export function chooseSandbox(
  strategy: GroupingStrategy,
  candidates: readonly GroupingCandidate[],
): string | undefined {
  const open = candidates.filter(({ conversations }) => conversations < maxConversations);
  switch (strategy) {
    case "NO_GROUPING":
      return undefined;
    case "GROUP_BY_NEWEST":
      return open.toSorted((a, b) => b.createdAt - a.createdAt)[0]?.id;
    case "LEAST_RECENTLY_USED":
      return open.toSorted((a, b) => a.createdAt - b.createdAt)[0]?.id;
    case "FEWEST_CONVERSATIONS":
      return open.toSorted((a, b) => a.conversations - b.conversations)[0]?.id;
    case "ADD_TO_ANY":
      return open[0]?.id;
  }
}
