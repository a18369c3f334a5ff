/** The place of the parenthesis that closes one which was opened before `at`; the text's length where none does. Quotes inside count. */
export function parenEnd(text: string, at: number): number {
  const open = [")"];
  for (let index = at; index < text.length; index++) {
    const char = text[index]!;
    const innermost = open.at(-1);
    if (char === "\\") index++;
    else if (char === '"') innermost === '"' ? open.pop() : open.push('"');
    else if (innermost === '"') {
      if (char === "$" && text[index + 1] === "(") {
        open.push(")");
        index++;
      }
    } else if (char === "'") {
      const end = text.indexOf("'", index + 1);
      if (end < 0) return text.length;
      index = end;
    } else if (char === "(") open.push(")");
    else if (char === ")") {
      open.pop();
      if (open.length === 0) return index;
    }
  }
  return text.length;
}

/** The place of the backtick that ends a substitution which begins at `at`; the text's length where none does. */
export function backtickEnd(text: string, at: number): number {
  for (let index = at; index < text.length; index++) {
    if (text[index] === "\\") index++;
    else if (text[index] === "`") return index;
  }
  return text.length;
}

/** Where the expansion of a variable ends that begins with the `$` at `at`, and the scripts inside of it: `${x:-$(…)}`. */
export function expansionEnd(text: string, at: number): { end: number; nested: string[] } {
  if (text[at + 1] !== "{") return { end: nameEnd(text, at), nested: [] };
  const nested: string[] = [];
  for (let index = at + 2; index < text.length; index++) {
    const char = text[index]!;
    if (char === "}") return { end: index + 1, nested };
    const isScript = char === "`" || (char === "$" && text[index + 1] === "(");
    if (char === "\\") index++;
    if (!isScript) continue;
    const from = index + (char === "`" ? 1 : 2);
    index = char === "`" ? backtickEnd(text, from) : parenEnd(text, from);
    nested.push(text.slice(from, index));
  }
  return { end: text.length, nested };
}

function nameEnd(text: string, at: number): number {
  let end = at + 1;
  while (end < text.length && /[A-Za-z0-9_]/.test(text[end]!)) end++;
  return end === at + 1 && /[@*#?$!-]/.test(text[end] ?? "") ? end + 1 : end;
}

const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", a: "\x07", b: "\b", e: "\x1b", f: "\f", v: "\v" };

/** The text of `$'…'`, whose first character is at `at`. */
export function ansiText(text: string, at: number): { value: string; end: number } {
  let value = "";
  let index = at;
  while (index < text.length && text[index] !== "'") {
    if (text[index] !== "\\") {
      value += text[index++];
      continue;
    }
    const found = /^(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3}))/.exec(
      text.slice(index + 1, index + 10),
    );
    if (found) {
      const [, x, u, long, octal] = found;
      const code = octal === undefined ? Number.parseInt((x ?? u ?? long)!, 16) : Number.parseInt(octal, 8);
      value += code <= 0x10ffff ? String.fromCodePoint(code) : "";
      index += 1 + found[0].length;
    } else {
      const char = text[index + 1] ?? "";
      value += escapes[char] ?? char;
      index += 2;
    }
  }
  return { value, end: index + 1 };
}
