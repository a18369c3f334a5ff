import { rejection } from "@sandpiper/agent/loop/acting";
import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import type { ActionEvent } from "@sandpiper/wire";

/** What the model reads of actions that waited when the user went on without an answer. */
export const unansweredReason = "it waited for the user's approval, and the user wrote instead.";

/** The results of actions that waited for the user and are not to run (agent-server.md section 4). Those that no tool could run get their error from the run. */
export function rejectActions(waiting: readonly ActionEvent[], reason: string): NewRecord[] {
  return waiting.filter(({ action }) => action).map((event) => rejection(event, "user", reason));
}
