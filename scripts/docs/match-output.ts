/** The wildcard of expected outputs: any text in a line or, as a whole line, any lines. */
const wildcard = "…";

/**
 * Index of the first expected line that the output lacks; undefined when a command printed what its
 * page shows. Blanks at the ends of lines and empty lines at the end do not count; in JSON, no
 * blanks do.
 */
export function findMismatch(expected: string, printed: string, language = "text"): number | undefined {
  if (language === "json") return matchesText(compact(expected), compact(printed)) ? undefined : 0;
  return matchLines(toLines(expected), toLines(printed));
}

function compact(json: string): string {
  return json.replaceAll(/\s/g, "");
}

function toLines(text: string): string[] {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => line.trimEnd());
}

/** Keeps all reachable positions after each line: several wildcards need no backtracking. */
function matchLines(expected: string[], printed: string[]): number | undefined {
  let reached = new Set([0]);
  for (const [index, line] of expected.entries()) {
    const next = new Set<number>();
    for (const at of reached)
      if (line.trim() === wildcard) for (let end = at; end <= printed.length; end++) next.add(end);
      else if (at < printed.length && matchesText(line, printed[at]!)) next.add(at + 1);
    if (next.size === 0) return index;
    reached = next;
  }
  return reached.has(printed.length) ? undefined : expected.length - 1;
}

/** The pieces between the wildcards, in order: the first at the start, the last at the end. */
function matchesText(expected: string, printed: string): boolean {
  const pieces = expected.split(wildcard);
  if (pieces.length === 1) return expected === printed;
  const first = pieces[0]!;
  const last = pieces.at(-1)!;
  const end = printed.length - last.length;
  let at = first.length;
  if (!printed.startsWith(first) || !printed.endsWith(last)) return false;
  for (const piece of pieces.slice(1, -1)) {
    const found = printed.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return at <= end;
}
