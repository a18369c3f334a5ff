import type { MoveProgress } from "../store/move/move-to-postgres.ts";
import { inertLine } from "./inert.ts";
import { createPaint } from "./style.ts";

/** How often a terminal shows another number, and another stream a line, ms. */
const terminalMs = 100;
const lineMs = 5_000;

const verbs = { copy: "Copying", compare: "Comparing" } as const;

/** Shows on standard error how far a copy is: in one line of a terminal, else a line at times. */
export function showProgress(): { onProgress(progress: MoveProgress): void; end(): void } {
  const { isTTY } = process.stderr;
  const paint = createPaint(process.stderr);
  const interval = isTTY ? terminalMs : lineMs;
  let shownAt = performance.now();
  return {
    onProgress({ step, table, done, total }) {
      // The clock is not read for each row.
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
