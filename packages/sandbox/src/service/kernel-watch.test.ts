import { expect, test } from "vitest";
import { KernelWatch, type MachineMemory } from "./kernel-watch.ts";

const mb = 2 ** 20;

/** A watch over sandboxes that hold so many megabytes. */
function watch(held: Record<string, number>) {
  const memory: MachineMemory = { kernel: 100 * mb, available: 500 * mb, total: 1_000 * mb };
  const time = { now: 0 };
  const measured: string[] = [];
  const stopped: [string, string][] = [];
  const kernel = new KernelWatch({
    running: () => Object.keys(held).map((id) => ({ id })),
    measure: async (id) => {
      measured.push(id);
      return held[id]! * mb;
    },
    stop: async (id, reason) => void stopped.push([id, reason]),
    machine: async () => memory,
    now: () => time.now,
    logger: { warn: () => {} },
  });
  return { kernel, memory, time, measured, stopped };
}

test("sandboxes are measured when the kernel's memory has grown since the least it had", async () => {
  const { kernel, memory, measured, stopped } = watch({ small: 1, large: 200 });
  await kernel.look();
  memory.kernel = 60 * mb;
  await kernel.look();
  memory.kernel = 120 * mb;
  await kernel.look();
  expect(measured).toEqual([]);
  memory.kernel = 125 * mb;
  await kernel.look();
  expect(measured).toEqual(["small", "large"]);
  expect(stopped).toEqual([["large", expect.stringMatching(/more than 128\.0 MB of the kernel's memory/)]]);
  await kernel.look();
  expect(measured).toHaveLength(2);
});

test("while memory is scarce, less growth and smaller holders count", async () => {
  const { kernel, memory, stopped } = watch({ small: 1, medium: 20 });
  await kernel.look();
  Object.assign(memory, { kernel: 120 * mb, available: 50 * mb });
  await kernel.look();
  expect(stopped).toEqual([["medium", expect.stringMatching(/more than 16\.0 MB/)]]);
});

test("while memory is scarce, sandboxes are measured every second without growth, and less is too much", async () => {
  const { kernel, memory, time, measured, stopped } = watch({ small: 1, medium: 20 });
  memory.available = 50 * mb;
  await kernel.look();
  time.now = 900;
  await kernel.look();
  expect(measured).toEqual(["small", "medium"]);
  time.now = 1_000;
  await kernel.look();
  expect(measured).toHaveLength(4);
  expect(stopped.at(-1)).toEqual([
    "medium",
    expect.stringMatching(/memory of the server is nearly used up.* more than 16\.0 MB of memory outside/),
  ]);
});
