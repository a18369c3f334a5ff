import { rejection } from "@sandpiper/agent/loop/acting";
import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import type { ActionEvent } from "@sandpiper/wire";

/** The reason for actions that the user neither approved nor rejected. */
export const unansweredReason = "it waited for the user's approval, and the user wrote instead.";

/**
 * Results for waiting actions that must not run (agent-server.md section 4). Actions that no tool
 * can run are skipped; the run reports their error.
 */
export function rejectActions(waiting: readonly ActionEvent[], reason: string): NewRecord[] {
  return waiting.filter(({ action }) => action).map((event) => rejection(event, "user", reason));
}
