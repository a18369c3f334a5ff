/** Longest line that is typed into a terminal, bytes. The kernel cuts a line at 4095, simple line editors at 1023. */
const maxLineBytes = 900;

/** Quotes a word for any POSIX shell. The word may hold everything but NUL. */
export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/**
 * Quotes a text so that it can be typed into a terminal and read back unchanged by a shell: lines stay short enough, and control
 * characters, on which the terminal would act, are written out (in bash without a fork each). Pieces are joined by backslash-newline,
 * which shells drop.
 */
export function quoteTyped(text: string, bash: boolean): string {
  const typed: string[] = [];
  let quoted = "";
  let length = 0;
  const close = () => {
    if (quoted) typed.push(`'${quoted}'`);
    quoted = "";
  };
  for (const char of text) {
    if (char === "\n") {
      quoted += char;
      length = 0;
      continue;
    }
    if (length > maxLineBytes) {
      close();
      typed.push("\\\n");
      length = 0;
    }
    if (char === "'") {
      close();
      typed.push("\\'");
      length += 4;
    } else if ((char < " " && char !== "\t") || char === "\x7f") {
      close();
      const octal = `'\\${char.charCodeAt(0).toString(8).padStart(3, "0")}'`;
      typed.push(bash ? `$${octal}` : `"$(printf ${octal})"`);
      length += 18;
    } else {
      quoted += char;
      length += Buffer.byteLength(char);
    }
  }
  close();
  return typed.join("") || "''";
}
