import { showPaths } from "../prepare-folder.ts";
import type { Span } from "./svg.ts";

/** Rules for what differs between two runs; texts of the same length keep the columns. */
const rules: [RegExp, string][] = [
  [/\b[0-9a-f]{32}\b/g, "5f3c9a2e71b04d6e8c0f2a4b6d8e1c3f"],
  [/^[0-9a-f]{8}(?= )/g, "5f3c9a2e"],
  [/(?<=--continue )[0-9a-f]{8}\b/g, "5f3c9a2e"],
  [/\bsbx-[a-z2-7]{24}\b/g, "sbx-k2m5q7x3v6p4n8c2r5t7w3z6"],
  [/\b20\d\d-\d\d-\d\d \d\d:\d\d\b/g, "2026-11-24 10:00"],
  [/\b\d{1,3}(,\d{3})* tokens\b/g, "10,534 tokens"],
  [/\b\d+(\.\d+)? (ms|s)\b/g, "0.3 s"],
];

/** Makes the rows of two runs equal: times, ids, numbers of tokens and paths. */
export function normaliseRows(rows: Span[][], folder: string): Span[][] {
  let elapsed = 10;
  return rows.map((spans) =>
    spans.map((span, index) => {
      // The time at the start of a row, right-aligned.
      const time = index === 0 ? /^ {2,}\d+(\.\d+)? (ms|s)(?= |$)/.exec(span.text)?.[0] : undefined;
      if (time === undefined) return { ...span, text: normalise(span.text, folder) };
      const shown = `${(elapsed++ / 10).toFixed(1)} s`.padStart(time.length);
      return { ...span, text: shown + normalise(span.text.slice(time.length), folder) };
    }),
  );
}

function normalise(text: string, folder: string): string {
  return rules.reduce(
    (result, [pattern, replacement]) => result.replace(pattern, replacement),
    showPaths(text, folder),
  );
}
