/** A part of an update. */
export interface Hunk {
  /** Lines before it, such as the heads of a class and a function. */
  anchors: string[];
  lines: { kind: "context" | "add" | "remove"; text: string }[];
  /** Ends at the end of the file. */
  atEnd: boolean;
}

/** A file's change, with paths as written. */
export type FileChange =
  | { kind: "add"; path: string; lines: string[] }
  | { kind: "delete"; path: string }
  | { kind: "update"; path: string; moveTo?: string; hunks: Hunk[] };

/** A problem of a patch, as a sentence for the model. */
export class PatchError extends Error {}

const heads = /^\*\*\* (Add|Update|Delete) File: (.*)$/;

/** Parses a patch and ignores text around it. Throws PatchError naming the line. */
export function parsePatch(text: string): FileChange[] {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const begin = lines.findIndex((line) => line.trim() === "*** Begin Patch");
  if (begin < 0) throw new PatchError('The patch must begin with a line "*** Begin Patch".');
  const end = lines.findLastIndex((line) => line.trim() === "*** End Patch");
  if (end < begin) throw new PatchError('The patch has no line "*** End Patch": it may be cut off.');
  const changes: FileChange[] = [];
  for (let at = begin + 1; at < end; ) {
    const [, kind, rest] = heads.exec(lines[at]!) ?? [];
    if (kind === undefined || rest === undefined) {
      if (lines[at]!.trim() !== "")
        throw unexpected(at, lines[at]!, '"*** Add File: ", "*** Update File: " or "*** Delete File: "');
      at++;
      continue;
    }
    const path = rest.trim();
    if (path === "") throw new PatchError(`Line ${at + 1} of the patch names no file.`);
    const from = ++at;
    while (at < end && !heads.test(lines[at]!)) at++;
    const section = lines.slice(from, at);
    if (kind === "Add") changes.push({ kind: "add", path, lines: addedLines(section, from) });
    else if (kind === "Update") changes.push(readUpdate(path, section, from));
    else if (section.some((line) => line.trim() !== ""))
      throw unexpected(from, section[0]!, "another file or the end");
    else changes.push({ kind: "delete", path });
  }
  if (changes.length === 0) throw new PatchError("The patch changes no file.");
  return changes;
}

function addedLines(section: string[], from: number): string[] {
  // Trailing empty lines separate sections.
  const last = section.findLastIndex((line) => line !== "");
  return section.slice(0, last + 1).map((line, index) => {
    if (line !== "" && !line.startsWith("+"))
      throw unexpected(from + index, line, "+, as each line of a new file does");
    return line.slice(1);
  });
}

function readUpdate(path: string, section: string[], from: number): FileChange {
  const moveTo = /^\*\*\* Move to: (.*)$/.exec(section[0] ?? "")?.[1]?.trim();
  const hunks: Hunk[] = [];
  let hunk: Hunk | undefined;
  const next = (): Hunk => {
    hunk = { anchors: [], lines: [], atEnd: false };
    hunks.push(hunk);
    return hunk;
  };
  for (let at = moveTo === undefined ? 0 : 1; at < section.length; at++) {
    const line = section[at]!;
    if (line.startsWith("@@")) {
      const current = hunk && hunk.lines.length === 0 ? hunk : next();
      // Line numbers of a unified diff are ignored.
      const anchor = line.replace(/^@@( -\d+(,\d+)? \+\d+(,\d+)? @@)?/, "").trim();
      if (anchor !== "") current.anchors.push(anchor);
    } else if (line.trim() === "*** End of File") {
      if (hunk) hunk.atEnd = true;
      hunk = undefined;
    } else {
      const kind = { " ": "context", "+": "add", "-": "remove", "": "context" }[
        line.slice(0, 1)
      ] as Hunk["lines"][number]["kind"];
      if (!kind) throw unexpected(from + at, line, "a space, + or -, as each line of a change does");
      (hunk ?? next()).lines.push({ kind, text: line.slice(1) });
    }
  }
  // Trailing empty lines separate sections.
  for (const { lines } of hunks.slice(-1))
    while (lines.at(-1)?.kind === "context" && lines.at(-1)!.text === "") lines.pop();
  const filled = hunks.filter(({ lines }) => lines.some(({ kind }) => kind !== "context"));
  if (filled.length === 0 && !moveTo) throw new PatchError(`The patch names no change of ${path}.`);
  return { kind: "update", path, ...(moveTo && { moveTo }), hunks: filled };
}

function unexpected(index: number, line: string, wanted: string): PatchError {
  return new PatchError(
    `Line ${index + 1} of the patch must begin with ${wanted}; it is: ${line.slice(0, 200)}`,
  );
}
