import { inertLine } from "./inert.ts";
import { wrap } from "./lines.ts";
import { createPaint } from "./style.ts";

/** Lines for standard error of sentences about what a command does or leaves out. */
export function formatNotes(sentences: readonly string[]): string[] {
  const paint = createPaint(process.stderr);
  const width = Math.max((process.stderr.columns || 100) - 1, 20);
  return sentences.flatMap((sentence) =>
    wrap(inertLine(sentence), width).map((line) => paint("yellow", inertLine(line))),
  );
}
