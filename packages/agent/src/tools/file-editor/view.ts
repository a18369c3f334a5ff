import { extname } from "node:path";
import { trimTail } from "@sandpiper/core/trim";
import type { Listing } from "@sandpiper/sandbox/files/files";
import type { Content } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { clip, numbered, textLines } from "./edits.ts";
import { invalidParameter } from "./use-error.ts";

const imageTypes: Record<string, string> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
  ".bmp": "image/bmp",
};

/** Numbered lines. Throws UseError for a range outside the file. */
export function viewText(path: string, text: string, range: readonly number[] | undefined): Content[] {
  const lines = textLines(text);
  const hint = "Use view_range to see other lines.";
  if (!range) return [textContent(clip(`Content of ${path} with line numbers:\n${numbered(lines)}`, hint))];
  const [from, to] = range;
  const invalid = (problem: string) => invalidParameter("view_range", range, problem);
  if (range.length !== 2 || from === undefined || to === undefined)
    throw invalid("It must be a list of two integers, the first and the last line.");
  if (from < 1 || from > lines.length)
    throw invalid(`Its first line must be between 1 and ${lines.length}, the number of lines of the file.`);
  if (to !== -1 && to < from)
    throw invalid("Its last line must not be before the first; -1 means the end of the file.");
  const note =
    to > lines.length ? `NOTE: The file has only ${lines.length} lines; they are shown up to its end.\n` : "";
  const shown = numbered(lines.slice(from - 1, to === -1 ? undefined : to), from);
  return [textContent(clip(`${note}Content of ${path} with line numbers:\n${shown}`, hint))];
}

/** Entries of a folder, two levels deep. */
export function viewDirectory(path: string, listing: Listing): Content[] {
  const folder = trimTail(path, "/");
  const entries = listing.entries.map((entry) => `${folder}/${entry.path}${entry.directory ? "/" : ""}\n`);
  const hidden =
    listing.hidden > 0
      ? `\n${listing.hidden} hidden ${listing.hidden === 1 ? "item is" : "items are"} left out; \`ls -la ${path}\` shows them.`
      : "";
  const text = `Files and directories up to two levels deep in ${path}, without hidden items:\n${folder}/\n${entries.join("")}`;
  return [textContent(clip(text, "Look at a directory below it.") + hidden)];
}

/** An image for the model; undefined for names of other files. */
export function viewImage(path: string, content: Buffer): Content[] | undefined {
  const type = imageTypes[extname(path).toLowerCase()];
  if (!type) return undefined;
  return [
    textContent(`Image ${path}:`),
    { type: "image", image_urls: [`data:${type};base64,${content.toString("base64")}`], cache_prompt: false },
  ];
}
