import type { Mismatch } from "./test-run.ts";
import { type Language, type Token, tokenize } from "./tokens.ts";

/** A small change of one line. */
export interface Mutation {
  line: string;
  /** For people: `60 -> 3600`. */
  what: string;
  /** How likely such a change is a repair, before anything is known about the line. */
  weight: number;
}

const swaps: Readonly<Record<string, readonly string[]>> = {
  "+": ["-", "*"],
  "-": ["+"],
  "*": ["/", "+"],
  "/": ["*", "%"],
  "%": ["/"],
  "//": ["/", "%"],
  "+=": ["-="],
  "-=": ["+="],
  "<": ["<=", ">"],
  "<=": ["<", ">="],
  ">": [">=", "<"],
  ">=": [">", "<="],
  "==": ["!="],
  "!=": ["=="],
  "===": ["!=="],
  "!==": ["==="],
  "-lt": ["-le", "-gt"],
  "-le": ["-lt", "-ge"],
  "-gt": ["-ge", "-lt"],
  "-ge": ["-gt", "-le"],
  "-eq": ["-ne"],
  "-ne": ["-eq"],
  "&&": ["||"],
  "||": ["&&"],
  and: ["or"],
  or: ["and"],
  true: ["false"],
  false: ["true"],
  True: ["False"],
  False: ["True"],
  min: ["max"],
  max: ["min"],
  floor: ["ceil", "round"],
  ceil: ["floor", "round"],
  upper: ["lower"],
  lower: ["upper"],
  toUpperCase: ["toLowerCase"],
  toLowerCase: ["toUpperCase"],
  startswith: ["endswith"],
  endswith: ["startswith"],
  startsWith: ["endsWith"],
  endsWith: ["startsWith"],
  head: ["tail"],
  tail: ["head"],
};

/** Constants that are easily taken for each other. */
const units: readonly (readonly number[])[] = [
  [60, 3600, 86_400],
  [24, 12, 60],
  [7, 30, 365],
  [1000, 1024, 60],
  [10, 100],
];

/** All small changes of a line. `wrong` are the values that a test complained about; changes that would explain them weigh more. */
export function mutateLine(line: string, language: Language, wrong: readonly Mismatch[]): Mutation[] {
  const tokens = tokenize(line, language);
  const mutations = tokens.flatMap((token) => mutateToken(line, token, language, wrong));
  return [...mutations, ...swapArguments(line), ...negate(line, language, tokens)];
}

function mutateToken(line: string, token: Token, language: Language, wrong: readonly Mismatch[]): Mutation[] {
  const change = (text: string, weight: number): Mutation => ({
    line: line.slice(0, token.at) + text + line.slice(token.at + token.text.length),
    what: `${token.text} -> ${text}`,
    weight,
  });
  if (token.kind === "number") return mutateNumber(line, token, language, wrong, change);
  const others = Object.hasOwn(swaps, token.text) ? swaps[token.text]! : [];
  if (others.length === 0 || !makesSense(line, token, language)) return [];
  const isLogic = token.text === "&&" || token.text === "||";
  // In a shell, `|| return 1` is how errors are passed on, and seldom wrong.
  const weight = isLogic ? (language === "shell" ? 1 : 2) : /^[a-z]/i.test(token.text) ? 2 : 3;
  return others.map((other, position) => change(other, weight - position * 0.5));
}

/** Keeps options, paths, redirections, signs and imports from being taken for operators. */
function makesSense(line: string, token: Token, language: Language): boolean {
  if (token.kind === "word") return language !== "shell" || ["true", "false", "head", "tail"].includes(token.text);
  const before = line.slice(0, token.at).trimEnd();
  if (/^[+\-*/%<>]=?$|^\/\/$/.test(token.text))
    return token.arithmetic && /[\w)\]}"'$]$/.test(before) && !/\breturn$/.test(before);
  if (language === "shell" && /^[!=<>]/.test(token.text)) return token.text === "!=";
  return true;
}

function mutateNumber(
  line: string,
  token: Token,
  language: Language,
  wrong: readonly Mismatch[],
  change: (text: string, weight: number) => Mutation,
): Mutation[] {
  const { text } = token;
  // Positional parameters ($1), patterns of expansions (${x#[0-9]}), file descriptors (2>) and exit codes of a shell are not quantities.
  const before = line.slice(0, token.at);
  if (
    language === "shell" &&
    (/[$?#{&-]$|\$\{[^}]*$|\b(exit|return|shift)\s+$/.test(before) || /^\d*>/.test(line.slice(token.at)))
  )
    return [];
  const number = Number(text);
  if (!Number.isInteger(number)) return [];
  const weights = new Map<number, number>();
  const add = (value: number, weight: number) => {
    if (value !== number && value >= 0 && Number.isSafeInteger(value))
      weights.set(value, Math.max(weights.get(value) ?? 0, weight));
  };
  for (const { value, weight } of explainingValues(number, wrong)) add(value, weight);
  for (const family of units) if (family.includes(number)) for (const value of family) add(value, 3);
  add(number + 1, 2.5);
  add(number - 1, 2.5);
  return [...weights].map(([value, weight]) => change(String(value), weight));
}

/**
 * Constants which, in the place of this one, would turn a wrong result into the wanted one: the result itself, a factor (more
 * likely when the wrong result is a multiple of the constant) or a difference of one.
 */
function explainingValues(constant: number, wrong: readonly Mismatch[]): { value: number; weight: number }[] {
  return wrong.flatMap(({ expected, actual }) => {
    const [want, got] = [toNumber(expected), toNumber(actual)];
    if (want === undefined || got === undefined || want === got) return [];
    const values: { value: number; weight: number }[] = [];
    if (constant === got && constant > 1) values.push({ value: want, weight: 9 });
    const weight = got % constant === 0 ? 7 : 4;
    if (constant > 1 && got !== 0 && want !== 0) {
      values.push({ value: (constant * want) / got, weight }, { value: (constant * got) / want, weight: 4 });
    }
    if (Math.abs(want - got) === 1)
      values.push({ value: constant + want - got, weight: 6 }, { value: constant - want + got, weight: 6 });
    return values.filter(({ value }) => Number.isInteger(value) && value > 0);
  });
}

const toNumber = (text: string) => (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) : undefined);

/** `f(a, b)` becomes `f(b, a)`, for calls with two simple arguments; definitions are left alone. */
function swapArguments(line: string): Mutation[] {
  if (/^\s*(def|function|export|async|class|import|from|const \{|func|fn)\b/.test(line) && !/=\s*\w+\(/.test(line)) return [];
  return [...line.matchAll(/\b([A-Za-z_][\w.]*)\(\s*([^(),]+?)\s*,\s*([^(),]+?)\s*\)/g)]
    .filter((match) => match[2] !== match[3])
    .map((match) => ({
      line: `${line.slice(0, match.index)}${match[1]}(${match[3]}, ${match[2]})${line.slice(match.index + match[0].length)}`,
      what: `${match[1]}(${match[2]}, ${match[3]}) with swapped arguments`,
      weight: 1.5,
    }));
}

function negate(line: string, language: Language, tokens: Token[]): Mutation[] {
  const weight = 1.5;
  if (language === "python") {
    if (/\bnot\s+(?!in\b)/.test(line)) return [{ line: line.replace(/\bnot\s+(?!in\b)/, ""), what: "without not", weight }];
    const header = /^(\s*(?:el)?if|\s*while)\s+(.+):\s*$/.exec(line);
    return header ? [{ line: `${header[1]} not (${header[2]}):`, what: "negated condition", weight: 1 }] : [];
  }
  const bang = tokens.find(
    (token) => token.text === "!" && (language === "shell" ? /^!\s/ : /^!\s*[\w(]/).test(line.slice(token.at)),
  );
  if (bang) return [{ line: line.slice(0, bang.at) + line.slice(bang.at + 1).trimStart(), what: "without !", weight }];
  const condition = language === "c-like" ? /\bif\s*\(([^()]+)\)/.exec(line) : null;
  return condition ? [{ line: line.replace(condition[0], `if (!(${condition[1]}))`), what: "negated condition", weight: 1 }] : [];
}
