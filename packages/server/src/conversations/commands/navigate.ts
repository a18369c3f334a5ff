import { stateRecord } from "@sandpiper/agent/loop/records";
import { transition } from "@sandpiper/agent/loop/status";
import { PlatformError } from "@sandpiper/core/errors";
import type { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { FilesOutcome } from "../api.ts";
import { collectSkills } from "../log/branch.ts";
import type { Runner } from "../run/runner.ts";
import type { Workspaces } from "../run/workspaces.ts";
import { findSnapshot, stageFiles } from "./snapshot-lookup.ts";

export interface BranchDeps {
  store: Store;
  sandboxes: Sandboxes;
  runner: Pick<Runner, "requireAtRest">;
  workspaces: Pick<Workspaces, "getOrCreate">;
  /** Keyed by sandbox, because several conversations may share a folder. */
  replacements: KeyedMutex;
}

/**
 * Moves HEAD of a conversation to an event, or before all events with null, without removing any
 * event (agent-server.md section 3). An ended or waiting conversation becomes idle, and the working
 * folder gets the files of that time if a snapshot has them. Throws EventNotFound,
 * ConversationRunning, GoalRunning and the errors of the file copy, and changes nothing then.
 */
export async function navigate(
  deps: BranchDeps,
  row: ConversationRow,
  eventId: string | null,
): Promise<FilesOutcome> {
  const { store, sandboxes, runner, workspaces, replacements } = deps;
  const { events } = store;
  const path = await events.pathTo(row.id, eventId);
  if (!path) throw new PlatformError("EventUnknown");
  if (row.config.goal?.status === "running") throw new PlatformError("GoalActive");
  return replacements.run(row.sandboxId, async () => {
    await runner.requireAtRest(row.id);
    const { workingDir } = row.config;
    const snapshot = await findSnapshot({ events, sandboxes }, row, path);
    const staged =
      snapshot && (await stageFiles(sandboxes, snapshot, row, { from: workingDir, to: workingDir }));
    const workspace = workspaces.getOrCreate(row);
    // The tools of a run that starts between the move and the swap have to wait.
    const release = workspace.block();
    try {
      try {
        // A run that started during the copy would write to the new branch.
        await runner.requireAtRest(row.id);
        const { summary } = (await store.conversations.get(row.id)) ?? row;
        const leaf = stateRecord("leaf_event_id", eventId);
        const records = [leaf, ...transition(summary.executionStatus, "navigate")];
        await events.append(row.id, records, { navigate: eventId });
      } catch (error) {
        await staged?.discard();
        throw error;
      }
      const skills = await collectSkills(events, row.id, path.spans);
      await store.contexts.activate(row.id, () => skills);
      await staged?.swap();
    } finally {
      release();
    }
    await workspace.rewind(staged !== undefined);
    return { restored: staged && snapshot?.id };
  });
}
