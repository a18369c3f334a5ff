/** A rough split of a line of code: good enough to change one operator or constant, for the usual languages. */

export type Language = "shell" | "python" | "c-like";

export interface Token {
  kind: "number" | "word" | "operator" | "string" | "comment";
  text: string;
  /** Offset in the line. */
  at: number;
  /** In a shell line: whether it stands inside `$(( ))` or `(( ))`. True for other languages. */
  arithmetic: boolean;
}

export function languageOf(path: string): Language | undefined {
  if (/\.(sh|bash|ksh|zsh)$/.test(path)) return "shell";
  if (/\.(py|rb)$/.test(path)) return "python";
  if (/\.([cm]?[jt]sx?|go|rs|java|kt|c|cc|cpp|h|php|swift)$/.test(path)) return "c-like";
  return undefined;
}

const pattern =
  /(?<number>\b\d+(?:\.\d+)?\b)|(?<word>[A-Za-z_]\w*)|(?<operator>\*\*|\/\/|<<|>>|===|!==|==|!=|<=|>=|&&|\|\||\+\+|--|[+\-*/%]=|=>|->|-(?:eq|ne|lt|le|gt|ge)\b|[+\-*/%<>!])/g;

export function tokenize(line: string, language: Language): Token[] {
  const masked = maskText(line, language);
  const tokens: Token[] = [];
  for (const match of masked.code.matchAll(pattern)) {
    const kind = match.groups!.number ? "number" : match.groups!.word ? "word" : "operator";
    // In Python `//` divides; in the C family the mask has removed comments already.
    tokens.push({ kind, text: match[0], at: match.index, arithmetic: language !== "shell" || isArithmetic(line, match.index) });
  }
  return tokens;
}

/** Blanks out strings and comments, keeping offsets. Double quotes of a shell hold code. */
function maskText(line: string, language: Language): { code: string } {
  let code = "";
  let quote = "";
  for (let at = 0; at < line.length; at++) {
    const char = line[at]!;
    if (quote) {
      if (char === "\\" && quote !== "'") {
        code += "  ";
        at++;
        continue;
      }
      if (char === quote) quote = "";
      code += " ";
    } else if (char === "'" || (language !== "shell" && (char === '"' || char === "`"))) {
      quote = char;
      code += " ";
    } else if (startsComment(line, at, language)) {
      return { code: code.padEnd(line.length) };
    } else {
      code += char;
    }
  }
  return { code };
}

function startsComment(line: string, at: number, language: Language): boolean {
  if (language === "c-like")
    return line.startsWith("//", at) || line.startsWith("/*", at) || /^\s*\*/.test(line.slice(0, at + 1));
  return line[at] === "#" && (at === 0 || /\s/.test(line[at - 1]!));
}

function isArithmetic(line: string, at: number): boolean {
  const open = line.lastIndexOf("((", at);
  if (open < 0) return false;
  const close = line.indexOf("))", open);
  return close < 0 || at < close;
}
