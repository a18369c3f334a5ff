import { parseShell } from "@sandpiper/core/shell-syntax";

/**
 * The commands of a shell text that begin on lines of their own: `a; b` and `a && b` are one
 * command, `a` and `b` on two lines are two. A text with a syntax error counts as one: the shell
 * reports the error.
 */
export function splitCommands(text: string): string[] {
  const script = text.replaceAll("\r\n", "\n");
  const parsed = parseShell(script);
  if (!parsed || parsed.errors) return [text.trim()];
  const { commands } = parsed;
  const starts = commands.filter(({ pos }, index) => {
    const previous = commands[index - 1];
    return !previous || startsLine(script.slice(previous.end, pos));
  });
  if (starts.length < 2) return [text.trim()];
  return starts.map(({ pos }, index) => trimComments(script.slice(pos, starts[index + 1]?.pos)));
}

/** True for a line break, also of a comment or heredoc; a backslash cancels it. */
function startsLine(gap: string): boolean {
  return /#|(?<!\\)\n/.test(gap);
}

/** Drops blank lines and comment lines at the end. */
function trimComments(command: string): string {
  const lines = command.split("\n");
  while (lines.length > 1 && /^\s*(?:#|\\?$)/.test(lines.at(-1)!)) lines.pop();
  return lines.join("\n").trim();
}
