/** The wildcard of expected outputs: any text in a line or, as a whole line, any lines. */
const wildcard = "…";

/**
 * Whether a command printed what its page shows. Blanks at the ends of lines and empty lines at the
 * end do not count; in JSON, no blanks do.
 */
export function matchesOutput(expected: string, printed: string, language = "text"): boolean {
  if (language === "json") return matchesText(compact(expected), compact(printed));
  return matchesLines(toLines(expected), toLines(printed));
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

/** Reachable positions after each expected line, so that several wildcards need no backtracking. */
function matchesLines(expected: string[], printed: string[]): boolean {
  let reached = new Set([0]);
  for (const line of expected) {
    const next = new Set<number>();
    for (const at of reached)
      if (line.trim() === wildcard) for (let end = at; end <= printed.length; end++) next.add(end);
      else if (at < printed.length && matchesText(line, printed[at]!)) next.add(at + 1);
    reached = next;
  }
  return reached.has(printed.length);
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
