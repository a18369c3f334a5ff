import type { SourceFile } from "./source-files.ts";

const maxLines = 400;
const maxCommentColumns = 100;
/** A `*` in the first column is text of a template, such as a list in a prompt. */
const commentLine = /^\s*(?:\/\*|\/\/)|^\s+\*/;

/** Files of more than 400 lines and comment lines of more than 100 columns, one sentence each. */
export function lengthProblems(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, text }) => {
    const lines = text.split("\n");
    const count = text.endsWith("\n") ? lines.length - 1 : lines.length;
    const tooLong =
      count > maxLines
        ? [`${path} has ${count} lines, more than ${maxLines}: it probably holds two things.`]
        : [];
    const wide = lines.flatMap((line, index) =>
      line.length > maxCommentColumns && commentLine.test(line) && !/https?:\/\/\S{60}/.test(line)
        ? [`${path}:${index + 1}: the comment has ${line.length} columns, more than ${maxCommentColumns}.`]
        : [],
    );
    return [...tooLong, ...wide];
  });
}
