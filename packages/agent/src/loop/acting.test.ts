import { PlatformError } from "@sandpiper/core/errors";
import { stub } from "@sandpiper/core/test/support/stub";
import { type ActionEvent, type AgentErrorEvent, contentText, newId, textContent } from "@sandpiper/wire";
import { Type } from "typebox";
import { expect, test } from "vitest";
import { noHooks } from "../hooks/hooks.ts";
import { noMask } from "../masking/output-mask.ts";
import type { Tool, ToolContext } from "../tools/tool.ts";
import { type ActContext, act, interruptedResult, isInterruption } from "./acting.ts";
import type { LogRecord, NewRecord } from "./log-record.ts";

/** Which calls run side by side, and in which order their results come. */

type Work = (
  name: string,
  signal: AbortSignal,
  onProgress: NonNullable<ToolContext["onProgress"]>,
) => Promise<string>;

/** Tools whose calls wait until the test lets them go. */
function stage(
  options: Partial<ActContext> & { keys?: (name: string) => string[] | undefined; work?: Work } = {},
) {
  const running = new Map<string, { release: () => void; fail: (error: unknown) => void }>();
  const begun: string[] = [];
  const waiting: (() => void)[] = [];
  const appended: string[] = [];
  const abort = new AbortController();
  const work: Work = (name, signal) =>
    new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
      begun.push(name);
      running.set(name, { release: () => resolve(`${name} done`), fail: reject });
      for (const wake of waiting.splice(0)) wake();
    });
  const tool = (name: string): Tool =>
    stub<Tool>({
      name,
      parameters: Type.Object({}),
      actionKind: "ThinkAction",
      role: name === "finish" ? "finish" : undefined,
      idempotent: false,
      readOnly: false,
      ...(options.keys?.(name) && { resources: () => options.keys!(name)! }),
      run: async (_action: unknown, { signal, onProgress }: ToolContext) => ({
        kind: name === "finish" ? "FinishObservation" : "ThinkObservation",
        content: [textContent(await (options.work ?? work)(name, signal, onProgress!))],
        is_error: false,
      }),
    });
  const context = (names: string[]): ActContext => ({
    tools: [...new Set(names)].map(tool),
    hooks: noHooks,
    mask: noMask,
    concurrency: 10,
    toolContext: { signal: abort.signal } as ActContext["toolContext"],
    append: async (records: NewRecord[]) => {
      for (const { event } of records) {
        if (event.kind === "ObservationEvent") appended.push(contentText(event.observation.content));
        else if (event.kind === "AgentErrorEvent") appended.push(event.error);
        else appended.push(event.kind === "ConversationStateUpdateEvent" ? String(event.value) : event.kind);
      }
      return records.map((record, index) => stub<LogRecord>({ ...record, seq: index + 1 }));
    },
    onStart: () => {},
    hasUnseenMessage: () => false,
    rulesFor: async () => [],
    ...options,
  });
  const until = async (matches: () => boolean) => {
    while (!matches()) await new Promise<void>((resolve) => waiting.push(resolve));
  };
  return {
    run: (...names: string[]) => act(names.map(call), context(names)),
    begun,
    appended,
    abort,
    running: (name: string) => until(() => running.has(name)).then(() => running.get(name)!),
  };
}

function call(name: string): ActionEvent {
  return {
    kind: "ActionEvent",
    id: newId(),
    tool_name: name,
    tool_call_id: newId(),
    action: { kind: "ThinkAction", thought: "" },
  } as ActionEvent;
}

test("calls of different tools run concurrently, and their results keep the order of the calls", async () => {
  const { run, appended, running } = stage();
  const done = run("a", "b", "c");
  (await running("c")).release();
  (await running("b")).release();
  expect(appended).toEqual([]);
  (await running("a")).release();
  await done;
  expect(appended).toEqual(["a done", "b done", "c done"]);
});

test("calls that share a key run one after the other, others run concurrently", async () => {
  const { run, begun, running } = stage({ keys: (name) => (name === "free" ? [] : ["file:/x"]) });
  const done = run("first", "second", "free");
  const [first] = await Promise.all([running("first"), running("free").then(({ release }) => release())]);
  expect(begun).toEqual(["first", "free"]);
  first.release();
  (await running("second")).release();
  await done;
});

test("concurrency is limited, and at one each result is logged before the next call begins", async () => {
  let at = 0;
  let most = 0;
  const work: Work = async (name) => {
    most = Math.max(most, ++at);
    await new Promise((resolve) => setImmediate(resolve));
    at--;
    return name;
  };
  const names = Array.from({ length: 500 }, (_, index) => `tool${index}`);
  const three = stage({ work, concurrency: 3 });
  await three.run(...names);
  expect(most).toBe(3);
  expect(three.appended).toEqual(names);

  const seen: number[] = [];
  const look: Work = async (name) => {
    seen.push(one.appended.length);
    return name;
  };
  const one = stage({ concurrency: 1, work: look });
  await one.run("a", "b", "c");
  expect(seen).toEqual([0, 1, 2]);
});

test("progress of a call is reported at a limited rate, masked, and not after its end", async () => {
  const reported: unknown[] = [];
  let late = () => {};
  const work: Work = async (_name, _signal, onProgress) => {
    for (let progress = 0; progress < 10_000; progress++)
      onProgress({ progress, message: `at hush ${"x".repeat(10_000)}` });
    await new Promise((resolve) => setTimeout(resolve, 600));
    late = () => onProgress({ progress: 1 });
    onProgress({ progress: 20_000 });
    return "over";
  };
  const mask = { ...noMask, text: (text: string) => text.replaceAll("hush", "…") };
  const { run, appended } = stage({
    work,
    mask,
    onProgress: ({ tool_name }, progress) => void reported.push([tool_name, progress]),
  });
  await run("long");
  late();
  await new Promise((resolve) => setTimeout(resolve, 600));
  const message = expect.stringMatching(/^at … x{400,500}$/);
  expect(reported).toEqual([
    ["long", { progress: 0, message }],
    ["long", { progress: 9_999, message }],
  ]);
  expect(appended).toEqual(["over"]);
});

test("finish waits for all earlier calls", async () => {
  const { run, begun, appended, running } = stage();
  const done = run("slow", "finish");
  const slow = await running("slow");
  expect(begun).toEqual(["slow"]);
  slow.release();
  (await running("finish")).release();
  await done;
  expect(appended).toEqual(["slow done", "finish done", "finished"]);
});

test("an abort keeps the results of finished calls, even after an unfinished one", async () => {
  const { run, abort, appended, running } = stage();
  const done = run("never", "quick", "late");
  (await running("quick")).release();
  await running("never");
  await running("late");
  await new Promise((resolve) => setImmediate(resolve));
  abort.abort("interrupt");
  await expect(done).rejects.toBe("interrupt");
  expect(appended).toEqual(["quick done"]);
});

test("a failing tool is an error event, and a deleted sandbox ends the run after all results", async () => {
  const { run, appended, running } = stage();
  const done = run("broken", "gone", "fine");
  (await running("broken")).fail(new Error("no luck"));
  (await running("gone")).fail(new PlatformError("SandboxNotFound", "The sandbox was deleted."));
  (await running("fine")).release();
  await expect(done).rejects.toMatchObject({ code: "SandboxNotFound" });
  expect(appended).toEqual(["broken failed: no luck", "gone failed: The sandbox was deleted.", "fine done"]);
});

test("a blocking hook replaces the result, and its advice is read with the result", async () => {
  const hooks = {
    ...noHooks,
    beforeTool: async ({ tool_name }: ActionEvent) => (tool_name === "bad" ? { blocked: "not here" } : {}),
  };
  const { run, begun, appended, running } = stage({ hooks });
  const done = run("bad", "good");
  (await running("good")).release();
  await done;
  expect(begun).toEqual(["good"]);
  expect(appended).toEqual(["UserRejectObservation", "good done"]);
});

test("an interrupt distinguishes interrupted calls from calls that never began", async () => {
  const reported: string[] = [];
  const { run, abort, running } = stage({ concurrency: 1, onStart: (id) => reported.push(id) });
  const done = run("first", "second");
  await running("first");
  abort.abort("interrupt");
  await expect(done).rejects.toBe("interrupt");
  expect(reported.length).toBe(1);
  const texts = [true, false].map(
    (begun) => interruptedResult(call("first"), { begun }).event as AgentErrorEvent,
  );
  expect(texts.map(({ error }) => error)).toEqual([
    expect.stringContaining("outcome is unknown"),
    expect.stringContaining("nothing of it was done"),
  ]);
  expect(texts.every(({ error }) => isInterruption(error))).toBe(true);
});
