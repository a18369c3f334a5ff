import type { MoveProgress } from "../store/move/move-to-postgres.ts";
import { inertLine } from "./inert.ts";
import { createPaint } from "./style.ts";

/** Delay between two numbers on a terminal, and between two lines in another stream, ms. */
const terminalMs = 100;
const lineMs = 5_000;

const verbs = { copy: "Copying", compare: "Comparing" } as const;

/**
 * Shows the progress of a copy on standard error: in one line of a terminal, else in a line at
 * intervals.
 */
export function showProgress(): { onProgress(progress: MoveProgress): void; end(): void } {
  const { isTTY } = process.stderr;
  const paint = createPaint(process.stderr);
  const interval = isTTY ? terminalMs : lineMs;
  let shownAt = performance.now();
  return {
    onProgress({ step, table, done, total }) {
      // The clock is read only for some rows, because each read takes time.
      if (done % 256 !== 0) return;
      const now = performance.now();
      if (now - shownAt < interval) return;
      shownAt = now;
      const count = (number: number) => number.toLocaleString("en-US");
      const line = inertLine(`${verbs[step]} ${table}: ${count(done)} of ${count(total)} rows`);
      process.stderr.write(isTTY ? `\r\x1b[K${paint("dim", line)}` : `${line}\n`);
    },
    end() {
      if (isTTY) process.stderr.write("\r\x1b[K");
    },
  };
}
