import { randomBytes } from "node:crypto";
import { isNotice } from "@sandpiper/agent/loop/records";
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

/** A platform for the replay only, with an empty data folder. */
export interface ReplayPlatform {
  store: Store;
  scheduler: TurnScheduler;
  sandboxes: Sandboxes;
  settings: Settings;
  secrets: Secrets;
  conversations: Conversations;
}

export interface ReplayOptions {
  /** Starts the platform with these parts. */
  start(parts: { openModel: OpenModel; adaptTools: AdaptTools }): Promise<ReplayPlatform>;
  /** Spec of the sandbox; default: the recorded one if it exists, else the platform's default. */
  specId?: string | undefined;
  /** Copies files into the working folder before the first message. */
  fill?: ((sandboxId: string, workingDir: string) => Promise<void>) | undefined;
  /** Aborts the replay, which throws the reason. */
  signal?: AbortSignal | undefined;
}

/** The result of a replay. */
export interface ReplayReport {
  conversation: string;
  /** Versions of Sandpiper. */
  recorded_by: string;
  replayed_by: string;
  spec: string;
  /** Model calls by usage id. */
  calls: { usage_id: string; recorded: number; replayed: number }[];
  /** Numbers of tool calls that were not run again, by name. */
  not_run: Record<string, number>;
  /** Why the replay stopped early. */
  stopped?: string;
  divergences: Divergence[];
}

/** Bounds of the time without progress after which a replay stops. */
const minIdleMs = 120_000;
const maxIdleMs = 1_800_000;

/**
 * Runs this version's agent on a recorded conversation with the recorded model answers, in a new
 * sandbox without a network, and compares the prompts. Throws RecordingUnusable, and the platform's
 * errors when a sandbox cannot start.
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
    const spec = (await platform.sandboxes.get(defaultUser, sandboxId))?.specId ?? "";
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

/** Reads unvalidated events. Throws RecordingUnusable. */
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

/** Creates the sandbox and the empty conversation; returns the id of the sandbox. */
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
  for (const { name, description, hosts, plain } of conversation.secrets.filter(
    createSecretFilter(recording),
  )) {
    const secret = {
      name,
      description: description ?? null,
      hosts: hosts ?? null,
      ...(plain && { plain }),
      value: randomBytes(24).toString("base64url"),
    };
    // Names of git provider tokens are reserved: their errors are ignored.
    await secrets.put(defaultUser, secret, { replace: true }).catch(() => {});
  }
  const known = sandboxes.specs().some((spec) => spec.id === conversation.spec_id);
  const specId = options.specId ?? (known ? conversation.spec_id : undefined);
  // The allow list is empty, but a recorded network mode keeps its variables and refusals.
  const { mode } = (await sandboxes.resolveSpec(defaultUser, specId)).network;
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

/** Recorded notes about servers and files outside of the replay, next to the first message. */
function firstNotes({ events }: Recording): string[] {
  const listed = events.filter((line) => line.listed).map(({ event }) => event as Event);
  const after = listed.slice(listed.findIndex(({ kind }) => kind === "MessageEvent") + 1);
  const end = after.findIndex(({ kind, source }) => kind !== "MessageEvent" || source !== "environment");
  const notes = end < 0 ? after : after.slice(0, end);
  return notes
    .map((note) => note as MessageEvent)
    .filter((note) => !isNotice(note))
    .map(({ llm_message }) => contentText(llm_message.content));
}

/** Filters secrets that the prompt names: the user may have added others since. */
function createSecretFilter({ events }: Recording): (secret: { name: string }) => boolean {
  const prompt = events.map(({ event }) => event as Event).find(({ kind }) => kind === "SystemPromptEvent");
  // Token names are their variables in lower case.
  const text = JSON.stringify(prompt ?? null).toUpperCase();
  return ({ name }) => [":", " "].some((end) => text.includes(`* $${name.toUpperCase()}${end}`));
}

/** Compares missing calls, the last results and the final status. */
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
  // A conversation that was running during the export has no end.
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
