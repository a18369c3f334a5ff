/** Limit of a typed line, bytes. The kernel cuts lines at 4095, simple line editors at 1023. */
const maxLineBytes = 900;

/** Quotes a word without NUL for any POSIX shell. */
export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/**
 * Quotes a text for typing into a terminal: joins short lines by backslash-newline, which shells
 * drop, and escapes control characters on which the terminal would act (in bash without a fork).
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
