import { expect, test } from "vitest";
import type { SandboxUsage } from "../driver.ts";
import { DiskWatch, graceMs } from "./disk-watch.ts";

const MB = 2 ** 20;

/** A watch over sandboxes whose sizes and CPU times the test sets. */
function watch(limits: Record<string, number>) {
  const state = {
    time: 1_000_000,
    sizes: {} as Record<string, number>,
    cpu: {} as Record<string, number>,
    looks: [] as string[],
    stopped: [] as [string, string][],
    free: 100 * 2 ** 30,
  };
  const disk = new DiskWatch({
    running: () => Object.entries(limits).map(([id, limitBytes]) => ({ id, limitBytes })),
    usage: async (id): Promise<SandboxUsage> => {
      state.looks.push(id);
      if (state.sizes[id] === undefined) throw new Error("gone");
      return { diskBytes: state.sizes[id]!, cpuMs: state.cpu[id] ?? 0, memoryBytes: 1, pids: 1 };
    },
    stop: async (id, reason) => void state.stopped.push([id, reason]),
    space: async () => ({ free: state.free, total: 200 * 2 ** 30 }),
    now: () => state.time,
    logger: { warn() {} },
  });
  const tick = async (afterMs: number) => {
    state.time += afterMs;
    state.looks = [];
    await disk.tick();
    return state.looks;
  };
  return { disk, state, tick };
}

test("only a sandbox over its limit is stopped, with a sentence that says what to do", async () => {
  const { state, tick } = watch({ big: 10 * MB, small: 10 * MB, gone: 10 * MB });
  state.sizes = { big: 10 * MB, small: MB };
  await tick(0);
  expect(state.stopped).toEqual([]);
  state.sizes.big = 11 * MB;
  await tick(4_000);
  expect(state.stopped).toEqual([
    ["big", expect.stringMatching(/11\.0 MB of the 10\.0 MB.*resume it and delete.*within 60 s\.$/)],
  ]);
});

test("an inactive sandbox is measured less and less often, a used one soon", async () => {
  const { disk, state, tick } = watch({ one: 10 * MB });
  state.sizes = { one: MB };
  expect(await tick(0)).toEqual(["one"]);
  expect(await tick(4_000)).toEqual(["one"]);
  expect(await tick(4_000)).toEqual([]);
  expect(await tick(4_000)).toEqual(["one"]);
  for (let i = 0; i < 10; i++) await tick(60_000);
  expect(await tick(55_000)).toEqual([]);
  disk.noteUse("one");
  expect(await tick(4_000)).toEqual(["one"]);
  state.cpu.one = 5;
  expect(await tick(60_000)).toEqual(["one"]);
  expect(await tick(4_000)).toEqual(["one"]);
});

test("after its user has resumed it, a large sandbox has a minute", async () => {
  const { disk, state, tick } = watch({ one: MB });
  state.sizes = { one: 2 * MB };
  await tick(0);
  expect(state.stopped).toHaveLength(1);
  disk.allowGrace("one");
  await tick(4_000);
  await tick(graceMs - 5_000);
  expect(state.stopped).toHaveLength(1);
  await tick(10_000);
  expect(state.stopped).toHaveLength(2);
});

test("when the disk is nearly full, each tick stops the sandbox that grows fastest", async () => {
  const { state, tick } = watch({ slow: 2 ** 40, fast: 2 ** 40, still: 2 ** 40 });
  state.sizes = { slow: MB, fast: MB, still: 9 * MB };
  await tick(0);
  state.free = 2 ** 29;
  await tick(1_000);
  expect(state.stopped).toEqual([]);
  state.sizes = { slow: 2 * MB, fast: 5 * MB, still: 9 * MB };
  await tick(1_000);
  expect(state.stopped).toEqual([
    ["fast", expect.stringMatching(/disk of the server is nearly full.*then resume it\.$/)],
  ]);
});
