import { inert, inertLine } from "./inert.ts";
import { wrap, wrapWords } from "./lines.ts";
import { createPaint } from "./style.ts";

/**
 * Formats a text for a stream. On a terminal, long lines break between words; lines that begin with
 * two spaces, such as commands to copy, stay whole.
 */
export function formatSentence(text: string, stream: NodeJS.WriteStream): string {
  const lines = inert(text).split("\n");
  if (!stream.isTTY) return lines.join("\n");
  const width = Math.max((stream.columns || 100) - 1, 20);
  return lines.flatMap((line) => (line.startsWith("  ") ? [line] : wrapWords(line, width))).join("\n");
}

/** Lines for standard error of sentences about what a command does or leaves out. */
export function formatNotes(sentences: readonly string[]): string[] {
  const paint = createPaint(process.stderr);
  const width = Math.max((process.stderr.columns || 100) - 1, 20);
  return sentences.flatMap((sentence) =>
    wrap(inertLine(sentence), width).map((line) => paint("yellow", inertLine(line))),
  );
}
