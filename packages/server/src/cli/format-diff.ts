import { inert } from "./inert.ts";
import type { Paint, Style } from "./style.ts";

const styles: readonly (readonly [RegExp, Style])[] = [
  [/^@@ /, "cyan"],
  [/^\+/, "green"],
  [/^-/, "red"],
];

/**
 * Colours git's diff for people. Every character of the changed files is visible: a diff is what
 * people approve.
 */
export function formatDiff(diff: string, paint: Paint): string {
  let inHeader = true;
  return diff
    .split("\n")
    .map((line) => {
      const shown = inert(line);
      if (/^diff --git /.test(line)) inHeader = true;
      else if (/^@@ /.test(line)) inHeader = false;
      if (inHeader) return /^(?: |$)/.test(line) ? shown : paint("bold", shown);
      const style = styles.find(([pattern]) => pattern.test(line))?.[1];
      return style ? paint(style, shown) : shown;
    })
    .join("\n");
}
