import { afterAll, beforeAll, expect, test } from "vitest";
import { agentReaders } from "./agent-readers.ts";
import { foreignReaders } from "./foreign-readers.ts";
import { platformReaders } from "./platform-readers.ts";
import type { Reader } from "./reader.ts";
import { StepCounter } from "./steps.ts";

/** Characters of the smallest text; the others have 2, 4 and 8 times as many. */
const baseChars = 1_000;
const sizes = [1, 2, 4, 8] as const;
/** Most steps of a text, compared with half of the text. */
const maxGrowth = 2.5;
/** Fewer steps are a matter of chance. */
const minSteps = 20_000;

/**
 * Characters of the text whose time is measured, and its most processor time in ms: steps of the
 * engine's expressions are not counted.
 */
const longChars = 20_000;
const maxMs = 3_000;

/** Hostile to many. */
const usualPieces = ["a", " ", "\n"];

let steps: StepCounter;
beforeAll(async () => {
  steps = await StepCounter.start();
});
afterAll(() => steps.stop());

const textOf = ({ around = ["", ""] }: Reader, piece: string, chars: number) =>
  around[0] + piece.repeat(Math.ceil(chars / piece.length)) + around[1];

/** A reader may refuse a text. */
async function attempt(work: () => unknown): Promise<void> {
  try {
    await work();
  } catch {}
}

test.each([...agentReaders, ...platformReaders, ...foreignReaders])(
  "$name takes linear time ($bound)",
  async (reader) => {
    for (const piece of new Set([...reader.pieces, ...usualPieces])) {
      const read = (chars: number) => {
        const text = textOf(reader, piece, chars);
        return attempt(() => reader.read(text));
      };
      await read(100);
      const counts = await steps.count(sizes.map((size) => () => read(size * baseChars)));
      const growths = counts.slice(1).map((count, index) => count / Math.max(counts[index]!, minSteps));
      expect(Math.max(...growths), `${JSON.stringify(piece)} takes ${counts.join(", ")} steps`).toBeLessThan(
        maxGrowth,
      );
      const began = process.cpuUsage();
      await read(reader.longChars ?? longChars);
      const { user, system } = process.cpuUsage(began);
      expect((user + system) / 1000, `${JSON.stringify(piece)} takes too many ms`).toBeLessThan(maxMs);
    }
  },
);
