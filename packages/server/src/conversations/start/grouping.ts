import type { Sandboxes } from "@sandpiper/sandbox/api";
import { withRepositoryHost } from "@sandpiper/sandbox/network/policy/repository-rule";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { AppConversationStartRequest, GroupingStrategy } from "@sandpiper/wire";
import type { Store } from "../../store/store.ts";
import type { SandboxJoins } from "../sandbox-joins.ts";
import { type Plan, sourceHosts } from "./start-plan.ts";

export interface GroupingCandidate {
  id: string;
  createdAt: number;
  conversations: number;
}

/** Maximum conversations of a shared sandbox (app-server.md section 4, reuse rule 2). */
const maxConversations = 20;

/** The running sandbox that a new conversation joins; undefined for a new sandbox. */
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

/** A running sandbox of the user that the conversation may share. */
export async function findSharedSandbox(
  {
    store,
    sandboxes,
    joins,
  }: {
    store: Pick<Store, "conversations">;
    sandboxes: Pick<Sandboxes, "search" | "getSpec">;
    joins: Pick<SandboxJoins, "mayJoin">;
  },
  { conversation: { userId }, strategy, work }: Pick<Plan, "conversation" | "strategy" | "work">,
  { sandbox_spec_id, network }: Pick<AppConversationStartRequest, "sandbox_spec_id" | "network">,
): Promise<string | undefined> {
  if (strategy === "NO_GROUPING" || network) return undefined;
  const hosts = sourceHosts(work);
  const reaches = (row: SandboxRow) => {
    const policy = sandboxes.getSpec(row).network;
    return hosts.every((host) => withRepositoryHost(policy, host).allow === policy.allow);
  };
  const { items } = await sandboxes.search(userId, { limit: 1_000 });
  const candidates: GroupingCandidate[] = [];
  for (const row of items) {
    const { id, createdAt } = row;
    const isFit = row.status === "RUNNING" && row.specId === (sandbox_spec_id ?? row.specId) && reaches(row);
    if (!isFit || !joins.mayJoin(id)) continue;
    const filter = { userId, sandboxId: id, includeSubConversations: true };
    candidates.push({ id, createdAt, conversations: await store.conversations.count(filter) });
  }
  return chooseSandbox(strategy, candidates);
}
