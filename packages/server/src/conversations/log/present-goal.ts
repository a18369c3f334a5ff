import type { Goal } from "../../store/conversation-store.ts";

/** `agent_state` of a conversation, as clients see it: its goal, where it has one. */
export function presentAgentState(goal: Goal | undefined): Record<string, unknown> {
  if (!goal) return {};
  const { objective, maxIterations, iteration, status, detail } = goal;
  return { goal: { objective, max_iterations: maxIterations, iteration, status, detail } };
}
