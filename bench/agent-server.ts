import { setTimeout as delay } from "node:timers/promises";
import { queryObjects, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { View } from "@sandpiper/agent/prompt/view";
import { ProviderModel } from "@sandpiper/models/provider-model";
import { TerminalSession } from "@sandpiper/sandbox/shell/terminal/session";
import { readConfig } from "@sandpiper/server/config/read-config";
import { LogFollower } from "@sandpiper/server/conversations/log/follower";
import { Run } from "@sandpiper/server/conversations/run/run";
import { Runner } from "@sandpiper/server/conversations/run/runner";
import { ConversationWorkspace } from "@sandpiper/server/conversations/run/workspace";
import { Workspaces } from "@sandpiper/server/conversations/run/workspaces";
import { startPlatform } from "@sandpiper/server/platform";

/**
 * A whole platform in its own process that records when model calls start and end and when
 * conversations wake. With BENCH_MODEL=local its model answers in this process, without a
 * provider's wire.
 */

/** Times on a clock that all processes share, ms. */
export interface Noted {
  /** Times of wakes, by conversation. */
  wakes: [string, number][];
  /** Times of model calls, with the name of the script. */
  calls: { name: string; begin: number; end: number }[];
}

/** Memory of the process after a garbage collection with everything unloaded, bytes. */
export interface Memory {
  heap: number;
  resident: number;
  /** Objects of conversations that are awake. */
  instances: number;
}

const now = () => Number(process.hrtime.bigint()) / 1e6;
let noted: Noted = { wakes: [], calls: [] };

const { complete } = ProviderModel.prototype;
const steps = new Map<string, number>();
ProviderModel.prototype.complete = async function (request) {
  const begin = now();
  const last = request.messages.findLast(({ role }) => role === "user");
  const text = last?.role === "user" && last.content[0]?.type === "text" ? last.content[0].text : "";
  const [, name = "", wanted = "0"] = /bench-([\w-]+):(\d+);/.exec(text) ?? [];
  try {
    return process.env.BENCH_MODEL === "local"
      ? local(name, Number(wanted))
      : await complete.call(this, request);
  } finally {
    noted.calls.push({ name, begin, end: now() });
  }
};

function local(name: string, wanted: number): Awaited<ReturnType<typeof complete>> {
  const step = steps.get(name) ?? 0;
  steps.set(name, step + 1);
  const id = `call_${name}_${step}`;
  const tokens = {
    prompt_tokens: 1000,
    completion_tokens: 20,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
  };
  const call = {
    id,
    name: "think",
    arguments: JSON.stringify({ thought: `Step ${step}: what is next.` }),
    origin: "completion",
  } as const;
  const more = step < wanted;
  return {
    ...{
      id: `response_${id}`,
      text: more ? "" : "Done.",
      thinkingBlocks: [],
      toolCalls: more ? [call] : [],
      cost: 0,
    },
    usage: { model: "local", ...tokens, context_window: 128_000, per_turn_token: 1020, response_id: id },
    finishReason: more ? "tool-calls" : "stop",
  };
}

let workspaces: Workspaces | undefined;
const { getOrCreate } = Workspaces.prototype;
Workspaces.prototype.getOrCreate = function (row) {
  workspaces = this;
  return getOrCreate.call(this, row);
};
const { wake } = Runner.prototype;
Runner.prototype.wake = function (id) {
  noted.wakes.push([id, now()]);
  return wake.call(this, id);
};

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const platform = await startPlatform(readConfig(process.env));
process.on("message", async (order: "noted" | "memory" | "loaded" | "running") => {
  if (order === "running")
    return void process.send!((await platform.store.conversations.listRunning()).length);
  if (order === "noted") {
    process.send!(noted);
    noted = { wakes: [], calls: [] };
    return;
  }
  // The end of a run is announced twice.
  await delay(500);
  if (order === "memory") {
    workspaces?.unload(0);
    workspaces?.unload(0);
  }
  collect();
  const { heapUsed, external } = process.memoryUsage();
  const kept = [Run, LogFollower, View, ConversationWorkspace, TerminalSession];
  const instances = kept.reduce(
    (sum, one) => sum + (queryObjects(one as new () => object, { format: "count" }) as number),
    0,
  );
  process.send!({
    heap: heapUsed + external,
    resident: process.memoryUsage().rss,
    instances,
  } satisfies Memory);
});
process.on("disconnect", () => void platform.close().then(() => process.exit()));
process.send!({ url: platform.url });
