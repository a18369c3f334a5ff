import { randomBytes } from "node:crypto";
import { View } from "@sandpiper/agent/prompt/view";
import { errorText } from "@sandpiper/core/errors";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { OpenModel } from "@sandpiper/models/model";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Event, MessageEvent } from "@sandpiper/wire";
import { contentText, hexId, newId } from "@sandpiper/wire";
import { platformVersion } from "../config/version.ts";
import type { AdaptTools } from "../conversations/agent/toolset.ts";
import type { Conversations } from "../conversations/api.ts";
import type { Store } from "../store/store.ts";
import type { Secrets, Settings } from "../users/api.ts";
import { defaultUser } from "../users/default-user.ts";
import { Comparison, type Divergence } from "./comparison.ts";
import { ExternalTools } from "./external-tools.ts";
import { InputReplayer } from "./input-replayer.ts";
import { extractInputs, type Inputs } from "./inputs.ts";
import { createNormaliser } from "./normalise.ts";
import { type Recording, RecordingUnusable } from "./read.ts";
import { ReplayModel } from "./replay-model.ts";
import { parseSettings, toReplayedConversation } from "./replayed-config.ts";

/** A platform of the replay's own, on an empty data folder, that nothing else uses. */
export interface ReplayPlatform {
  store: Store;
  scheduler: TurnScheduler;
  sandboxes: Sandboxes;
  settings: Settings;
  secrets: Secrets;
  conversations: Conversations;
}

export interface ReplayOptions {
  /** Starts it with these parts in the place of its own. */
  start(parts: { openModel: OpenModel; adaptTools: AdaptTools }): Promise<ReplayPlatform>;
  /**
   * What the sandbox is made of; default: the spec of the recording where there is one of this
   * name, else the platform's own.
   */
  specId?: string | undefined;
  /** Puts files into the working folder before the first message. */
  fill?: ((sandboxId: string, workingDir: string) => Promise<void>) | undefined;
  /** Ends the replay, which throws its reason then. */
  signal?: AbortSignal | undefined;
}

/** How a replay went. */
export interface ReplayReport {
  conversation: string;
  /** Versions of the programs. */
  recorded_by: string;
  replayed_by: string;
  spec: string;
  /** Model calls by usage id. */
  calls: { usage_id: string; recorded: number; replayed: number }[];
  /** Calls of tools that were not run again, by name. */
  not_run: Record<string, number>;
  /** Why the rest was left out. */
  stopped?: string;
  divergences: Divergence[];
}

/** Shortest time after which a replay in which nothing happens is given up, and the longest, ms. */
const minIdleMs = 120_000;
const maxIdleMs = 1_800_000;

/**
 * Runs the agent of this program on a recorded conversation, in a new sandbox without a network,
 * with the recorded answers of the model. What the agent asks the model is compared with what it
 * asked then. Throws RecordingUnusable, and what the platform throws where a sandbox cannot start.
 */
export async function replay(recording: Recording, options: ReplayOptions): Promise<ReplayReport> {
  const { header, calls } = recording;
  const { needs } = header;
  if (needs.length > 0 && !options.fill)
    throw new RecordingUnusable(
      `It cannot be replayed from nothing: it needs ${needs.join(", and ")}. Give the files with --dir.`,
    );
  if (!calls.some(({ usage_id }) => usage_id === "agent"))
    throw new RecordingUnusable(
      "It has no model call of the agent: the conversation is from before calls were recorded, or its agent never worked.",
    );
  const inputs = read(() => extractInputs(recording));
  const id = newId();
  const names: Record<string, string> = {};
  const comparison = new Comparison(recording, {
    recorded: createNormaliser(mapIds(header.conversation.id, header.conversation.sandbox_id)),
    replayed: (text) => createNormaliser(names)(text),
  });
  let player: InputReplayer | undefined;
  const model = new ReplayModel({
    recording,
    comparison,
    onCall: async (...call) => player?.beforeAnswer(...call),
  });
  const outside = read(() => new ExternalTools(recording, () => model.nextTools));
  const platform = await options.start({
    openModel: () => model.open(),
    adaptTools: (tools) => outside.adapt(tools),
  });

  const sandboxId = await prepare(platform, recording, id, options);
  Object.assign(names, mapIds(id, sandboxId));
  try {
    const { conversations, store, scheduler } = platform;
    player = new InputReplayer({
      ...{ conversations, events: store.events, scheduler, id, comparison, inputs: inputs.inputs },
      model: () => model,
      idleMs: getIdleMs(recording),
    });
    await Promise.race([player.play(), ...(options.signal ? [rejectOnAbort(options.signal)] : [])]);
    if (!inputs.stop) compareEnds(recording, inputs, { player, model, comparison });
    const spec = platform.sandboxes.get(defaultUser, sandboxId)?.specId ?? "";
    return {
      ...{
        conversation: header.conversation.id,
        recorded_by: header.platform,
        replayed_by: platformVersion,
        spec,
      },
      calls: model.counts.map(({ usageId, ...counts }) => ({ usage_id: usageId, ...counts })),
      not_run: Object.fromEntries(outside.results),
      ...(inputs.stop && { stopped: `${inputs.stop.reason} (event ${inputs.stop.seq})` }),
      divergences: comparison.divergences,
    };
  } finally {
    player?.close();
    await platform.conversations.commands.interrupt(id).catch(() => {});
    await platform.sandboxes.remove(defaultUser, sandboxId).catch(() => {});
  }
}

/** Reads events, which nobody has checked. Throws RecordingUnusable. */
function read<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new RecordingUnusable(`Its events cannot be read: ${errorText(error)}`);
  }
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** Makes the sandbox and the conversation, which has no event yet. Gives the id of the sandbox. */
async function prepare(
  platform: ReplayPlatform,
  recording: Recording,
  id: string,
  options: ReplayOptions,
): Promise<string> {
  const { header } = recording;
  const { store, sandboxes, settings, secrets } = platform;
  const { conversation } = header;
  const { agent, ...row } = toReplayedConversation(conversation, firstNotes(recording));
  const change = parseSettings(conversation.settings);
  if (change) await settings.updateV1(defaultUser, change);
  for (const { name, description, hosts } of conversation.secrets.filter(createSecretFilter(recording))) {
    const secret = {
      name,
      description: description ?? null,
      hosts: hosts ?? null,
      value: randomBytes(24).toString("base64url"),
    };
    // Tokens of git providers have names that no other secret can have.
    await secrets.put(defaultUser, secret, { replace: true }).catch(() => {});
  }
  const known = sandboxes.specs().some((spec) => spec.id === conversation.spec_id);
  const specId = options.specId ?? (known ? conversation.spec_id : undefined);
  // Nothing can be reached; but where the recorded agent had a way out, its commands find the same
  // variables and the same refusals.
  const { mode } = sandboxes.resolveSpec(defaultUser, specId).network;
  const network = { mode: mode === "none" ? mode : ("allowlist" as const), allow: [] };
  const sandbox = await sandboxes.create(defaultUser, specId, { network });
  const place = {
    id,
    userId: defaultUser,
    sandboxId: sandbox.id,
    title: null,
    parentId: null,
    createdAt: Date.now(),
  };
  await store.conversations.create({ ...place, ...row }, agent);
  await sandboxes.running(sandbox.id);
  await options.fill?.(sandbox.id, row.config.workingDir);
  return sandbox.id;
}

/**
 * Notes beside the first message: of servers and files outside of the replay, whose agent reads
 * them as they were.
 */
function firstNotes({ events }: Recording): string[] {
  const listed = events.filter((line) => line.listed).map(({ event }) => event as Event);
  const after = listed.slice(listed.findIndex(({ kind }) => kind === "MessageEvent") + 1);
  const end = after.findIndex(({ kind, source }) => kind !== "MessageEvent" || source !== "environment");
  const notes = end < 0 ? after : after.slice(0, end);
  return notes.map((note) => contentText((note as MessageEvent).llm_message.content));
}

/** Whether the prompt tells of a secret: the user may have got others since. */
function createSecretFilter({ events }: Recording): (secret: { name: string }) => boolean {
  const prompt = events.map(({ event }) => event as Event).find(({ kind }) => kind === "SystemPromptEvent");
  // Names of tokens are those of their variables in small letters.
  const text = JSON.stringify(prompt ?? null).toUpperCase();
  return ({ name }) => [":", " "].some((end) => text.includes(`* $${name.toUpperCase()}${end}`));
}

/**
 * What nobody was asked about any more: calls that did not come, the last results, and the status.
 */
function compareEnds(
  { events }: Recording,
  { status }: Inputs,
  { player, model, comparison }: { player: InputReplayer; model: ReplayModel; comparison: Comparison },
): void {
  for (const { usageId, recorded, replayed } of model.counts) {
    if (replayed < recorded)
      comparison.add({
        kind: "missing call",
        at: "the end",
        what: `${usageId}: ${recorded - replayed} of ${recorded} calls did not come`,
      });
  }
  // A conversation that was going on when it was exported has no end.
  if (status === "running" || model.isExhausted) return;
  if (player.status !== status)
    comparison.add({ kind: "status", at: "the end", what: `${player.status} in the place of ${status}` });
  const view = new View();
  read(() => {
    for (const { listed, event } of events) if (listed) view.add(event as Event);
  });
  comparison.compareMessages("the end", view.complete(), player.view.complete());
}

function mapIds(conversationId: string, sandboxId: string): Record<string, string> {
  return {
    [conversationId]: "<conversation>",
    [hexId(conversationId)]: "<conversation>",
    [sandboxId]: "<sandbox>",
  };
}

/** Twice the longest silence of the recording. */
function getIdleMs({ events }: Recording): number {
  const times = events
    .map(({ event }) => Date.parse(`${(event as Event).timestamp}Z`))
    .filter((time) => !Number.isNaN(time));
  const longest = times.reduce(
    (most, time, index) => Math.max(most, index > 0 ? time - times[index - 1]! : 0),
    0,
  );
  return Math.min(Math.max(minIdleMs, 2 * longest), maxIdleMs);
}
