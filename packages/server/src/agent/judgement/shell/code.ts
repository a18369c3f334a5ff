/** Calls of other languages that run a command. */
const runsCommand =
  /\b(?:system|popen|popen2|Popen|exec|execl|execv|execvp|execSync|execFile|execFileSync|spawn|spawnSync|check_output|check_call|shell_exec|passthru|proc_open|getoutput|qx|run|call)\b|`|checkpoint-action|:!|\bos\.exec/;

/** Longest piece of code that is looked through, characters. */
const maxCode = 100_000;
const maxTexts = 200;

/** Texts in code of another language that may be commands which it runs: where it runs commands at all, all of its texts. Linear in the length. */
export function shellTextsOfCode(code: string): string[] {
  if (code.length > maxCode || !runsCommand.test(code)) return [];
  const texts = quotedTexts(code);
  // `['rm', '-rf', '/']` is one command.
  const lists = [...code.matchAll(/\[([^\][]{1,2000})\]/g)].map(([, list]) => quotedTexts(list!).join(" "));
  const rest = /(?:checkpoint-action=exec=|:!)(.{1,2000})/.exec(code)?.[1];
  return [...texts, ...lists, ...(rest ? [rest] : [])]
    .filter((text) => text.includes(" ") || text.includes("/"))
    .slice(0, maxTexts);
}

/** The texts in quotes of any kind. */
export function quotedTexts(code: string): string[] {
  const texts: string[] = [];
  for (let at = 0; at < code.length && texts.length < maxTexts; at++) {
    const quote = code[at]!;
    if (!"'\"`".includes(quote)) continue;
    let end = at + 1;
    while (end < code.length && code[end] !== quote) end += code[end] === "\\" ? 2 : 1;
    texts.push(code.slice(at + 1, end).replaceAll(/\\(.)/g, "$1"));
    at = end;
  }
  return texts;
}
