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
    files: {} as Record<string, number>,
    freeFiles: 900_000,
    /** Sandboxes whose files cannot be counted in time, and whose count never ends. */
    partial: new Set<string>(),
    endless: new Set<string>(),
  };
  const disk = new DiskWatch({
    running: () => Object.entries(limits).map(([id, limitBytes]) => ({ id, userId: id[0]!, limitBytes })),
    usage: async (id): Promise<SandboxUsage> => {
      state.looks.push(id);
      if (state.sizes[id] === undefined) throw new Error("gone");
      if (state.endless.has(id)) await new Promise(() => {});
      const counted = { files: state.files[id] ?? 1, isPartial: state.partial.has(id) };
      return { diskBytes: state.sizes[id]!, ...counted, cpuMs: state.cpu[id] ?? 0, memoryBytes: 1, pids: 1 };
    },
    stop: async (id, reason) => void state.stopped.push([id, reason]),
    disk: {
      maxFiles: 1_000,
      space: async () => ({
        diskBytes: { free: state.free, total: 200 * 2 ** 30 },
        files: { free: state.freeFiles, total: 1_000_000 },
      }),
    },
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
    [
      "big",
      expect.stringMatching(
        /11\.0 MB of the 10\.0 MB.*snapshots included; resume it and delete.*within 60 s\.$/,
      ),
    ],
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

test("a sandbox with too many files is stopped, and so is one whose files cannot be counted twice in a row", async () => {
  const { state, tick } = watch({ many: MB, fits: MB, slow: MB });
  state.sizes = { many: 1, fits: 1, slow: 1 };
  state.files = { many: 1_001, fits: 1_000 };
  state.partial.add("slow");
  await tick(0);
  expect(state.stopped).toEqual([
    ["many", expect.stringMatching(/more than the 1000 files.*within 60 s\.$/)],
  ]);
  await tick(4_000);
  expect(state.stopped.slice(1)).toEqual([
    ["many", expect.anything()],
    ["slow", expect.stringMatching(/could not be counted twice/)],
  ]);
});

test("counts that do not end delay only other sandboxes of their user", async () => {
  const ids = ["x1", "x2", "x3", "x4", "x5", "other"];
  const { state, tick } = watch(Object.fromEntries(ids.map((id) => [id, MB])));
  state.sizes = Object.fromEntries(ids.map((id) => [id, 2 * MB]));
  for (const id of ids.slice(0, 5)) state.endless.add(id);
  expect((await tick(0)).toSorted()).toEqual(["other", "x1", "x2", "x3", "x4"]);
  expect(state.stopped.map(([id]) => id)).toEqual(["other"]);
  expect(await tick(4_000)).toEqual(["other"]);
});

test("the sandbox that adds files fastest is stopped when the disk has few left, and a drop is urgent", async () => {
  const { disk, state, tick } = watch({ big: 2 ** 40, files: 2 ** 40 });
  state.sizes = { big: MB, files: MB };
  await tick(0);
  expect(await disk.isUrgent()).toBe(false);
  state.freeFiles = 99_000;
  expect(await disk.isUrgent()).toBe(true);
  Object.assign(state, { sizes: { big: 9 * MB, files: MB }, files: { big: 1, files: 900 } });
  await tick(500);
  expect(state.stopped).toEqual([["files", expect.stringMatching(/nearly full/)]]);
});
