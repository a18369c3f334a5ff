import type { ActionEvent } from "@sandpiper/wire";
import { listed } from "../agent/records.ts";
import type { NewRecord } from "../store/event-log.ts";

/** What the model reads of actions that waited when the user went on without an answer. */
export const unansweredReason = "it waited for the user's approval, and the user wrote instead.";

/** The results of actions that waited for the user and are not to run (agent-server.md section 4). Those that no tool could run get their error from the run. */
export function rejections(waiting: readonly ActionEvent[], reason: string): NewRecord[] {
  return waiting
    .filter(({ action }) => action)
    .map(({ tool_name, tool_call_id, id: action_id }) =>
      listed({
        kind: "UserRejectObservation",
        source: "environment",
        tool_name,
        tool_call_id,
        action_id,
        rejection_reason: reason,
        rejection_source: "user",
      }),
    );
}
