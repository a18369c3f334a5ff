import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { readConfig } from "../packages/server/src/config/read-config.ts";
import { Runner } from "../packages/server/src/conversations/runner.ts";
import { ProviderModel } from "../packages/server/src/models/provider-model.ts";
import { startPlatform } from "../packages/server/src/platform.ts";

/**
 * A whole platform in a process of its own that notes when each model call begins and ends, and when conversations are woken. With BENCH_MODEL=local its model answers
 * inside of this process, so that nothing of a provider's wire is in the times between.
 */

/** Times on a clock that all processes share, ms. */
export interface Noted {
  /** Of each wake, by conversation. */
  wakes: [string, number][];
  /** Of each model call, with the name of the script. */
  calls: { name: string; begin: number; end: number }[];
}

/** What the process takes after a collection, bytes. */
export interface Memory {
  heap: number;
  resident: number;
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
    return process.env.BENCH_MODEL === "local" ? local(name, Number(wanted)) : await complete.call(this, request);
  } finally {
    noted.calls.push({ name, begin, end: now() });
  }
};

function local(name: string, wanted: number): Awaited<ReturnType<typeof complete>> {
  const step = steps.get(name) ?? 0;
  steps.set(name, step + 1);
  const id = `call_${name}_${step}`;
  const tokens = { prompt_tokens: 1000, completion_tokens: 20, cache_read_tokens: 0, cache_write_tokens: 0, reasoning_tokens: 0 };
  const call = { id, name: "think", arguments: JSON.stringify({ thought: `Step ${step}: what is next.` }), origin: "completion" };
  const more = step < wanted;
  return {
    ...{ id: `response_${id}`, text: more ? "" : "Done.", thinkingBlocks: [], toolCalls: more ? [call as never] : [], cost: 0 },
    usage: { model: "local", ...tokens, context_window: 128_000, per_turn_token: 1020, response_id: id },
    finishReason: more ? "tool-calls" : "stop",
  };
}

const { wake } = Runner.prototype;
Runner.prototype.wake = function (id) {
  noted.wakes.push([id, now()]);
  wake.call(this, id);
};

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const platform = await startPlatform(readConfig(process.env));
process.on("message", (order: "noted" | "memory" | "running") => {
  if (order === "running") return void process.send!(platform.store.conversations.listRunning().length);
  if (order === "noted") {
    process.send!(noted);
    noted = { wakes: [], calls: [] };
    return;
  }
  collect();
  const { heapUsed, external } = process.memoryUsage();
  process.send!({ heap: heapUsed + external, resident: process.memoryUsage().rss } satisfies Memory);
});
process.on("disconnect", () => void platform.close().then(() => process.exit()));
process.send!({ url: platform.url });
