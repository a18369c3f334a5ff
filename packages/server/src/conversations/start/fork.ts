import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import { nudge, stateRecord } from "@sandpiper/agent/loop/records";
import { PlatformError } from "@sandpiper/core/errors";
import { trimTail } from "@sandpiper/core/trim";
import type { ForkConversationRequest } from "@sandpiper/wire";
import { hexId, parseId } from "@sandpiper/wire";
import type { Callbacks } from "../../callbacks/api.ts";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Secrets } from "../../users/api.ts";
import type { FilesOutcome } from "../api.ts";
import type { BranchDeps } from "../commands/navigate.ts";
import { findSnapshot, stageFiles } from "../commands/snapshot-lookup.ts";
import { collectSkills, getLeafId } from "../log/branch.ts";
import { toForkContext } from "../project/project-context.ts";
import type { SandboxJoins } from "../sandbox-joins.ts";
import { parseOrCreateId } from "./checks.ts";

export interface ForkDeps extends Pick<BranchDeps, "store" | "sandboxes" | "replacements"> {
  joins: Pick<SandboxJoins, "run">;
  secrets: Pick<Secrets, "newConversation">;
  callbacks: Pick<Callbacks, "rowsOf">;
}

/**
 * Creates a conversation from the events of another one up to an event, by default its HEAD, in the
 * same sandbox with the same agent, secrets and policies (agent-server.md section 3). If a snapshot
 * has the files of that time, the fork works on a copy of them in its own folder; else both share a
 * folder. Throws EventNotFound, ConversationExists, InvalidParameter, and the errors of the file
 * copy.
 */
export async function forkConversation(
  deps: ForkDeps,
  source: ConversationRow,
  request: ForkConversationRequest,
): Promise<{ row: ConversationRow } & FilesOutcome> {
  const { store, joins, secrets, callbacks } = deps;
  const { events, conversations } = store;
  const { userId, sandboxId } = source;
  const id = parseOrCreateId(request.id, "id");
  if (await conversations.get(id)) throw new PlatformError("ConversationIdTaken", { id });
  const { from_event_id: from } = request;
  const eventId = from ? (parseId(from) ?? from) : ((await getLeafId(events, source)) ?? null);
  const path = await events.pathTo(source.id, eventId);
  if (!path) throw new PlatformError("EventUnknown");

  const { goal: _, worktree, ...config } = source.config;
  const ownFolder = `${trimTail(config.workingDir, "/")}-${hexId(id).slice(0, 8)}`;
  const snapshot = await findSnapshot({ events, sandboxes: deps.sandboxes }, source, path);
  const copied = snapshot !== undefined && (await copyFiles(deps, snapshot, source, ownFolder));
  const workingDir = copied ? ownFolder : config.workingDir;

  const keepsMetrics = request.reset_metrics === false;
  const { metrics, stats } = source.summary;
  const records: NewRecord[] = [
    ...(keepsMetrics && stats ? [stateRecord("stats", stats)] : []),
    ...(copied ? [nudge(movedText(workingDir, config.workingDir))] : []),
  ];
  const [context, skills, agent, own] = await Promise.all([
    store.contexts.get(source.id),
    collectSkills(events, source.id, path.spans),
    config.ownAgent ? store.agents.get(source.id) : undefined,
    store.conversationSecrets.get(source.id),
  ]);
  const forked = {
    id,
    userId,
    sandboxId,
    parentId: null,
    createdAt: Date.now(),
    title: forkTitle(source, id, request.title),
    config: {
      ...config,
      workingDir,
      ...(!copied && { worktree }),
      tags: request.tags ?? config.tags,
      forkedFrom: { conversationId: source.id, eventId },
    },
    ...(context && { context: { document: toForkContext(context.document), activated: skills } }),
    secrets: own && secrets.newConversation({ userId, conversationId: id, sandboxId }, own.values, own),
    callbacks: callbacks.rowsOf(userId, id, []),
  };
  const head = source.head === null ? null : eventId;
  let log: string | undefined;
  try {
    const copied = { head, metrics: keepsMetrics ? metrics : null };
    const copy = await conversations.copyLog(source.id, path.spans, copied);
    log = copy;
    // The fork appears with its whole log, or a crash leaves a hidden log that is removed.
    if (records.length > 0) await events.append(copy, records);
    await joins.run(source, () => conversations.create(forked, agent, copy));
  } catch (error) {
    if (log !== undefined) await conversations.dropLog(log).catch(() => {});
    throw error;
  }
  return { row: (await conversations.get(id))!, restored: copied ? snapshot?.id : undefined };
}

/** Returns false when the snapshot has no working folder. */
async function copyFiles(
  { sandboxes, replacements }: ForkDeps,
  snapshot: Parameters<typeof stageFiles>[1],
  source: ConversationRow,
  to: string,
): Promise<boolean> {
  return replacements.run(source.sandboxId, async () => {
    const staged = await stageFiles(sandboxes, snapshot, source, { from: source.config.workingDir, to });
    await staged?.swap();
    return staged !== undefined;
  });
}

/** A fork of a conversation with a default title gets a default title. */
function forkTitle(
  { id, title }: ConversationRow,
  forkId: string,
  requested: string | null | undefined,
): string | null {
  if (requested) return requested;
  if (title === null) return null;
  if (title === `Conversation ${hexId(id).slice(0, 5)}`) return `Conversation ${hexId(forkId).slice(0, 5)}`;
  return `${title} (fork)`.slice(0, 200);
}

function movedText(now: string, before: string): string {
  return `From here on you work in the folder ${now}: it has the files of ${before} as they were at this point. What is in ${before} now belongs to another conversation; leave it alone.`;
}
