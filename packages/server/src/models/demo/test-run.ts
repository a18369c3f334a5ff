/** What one run of the tests said. */
export interface TestRun {
  /** Undefined when the command did not end, or its end was not seen. */
  exitCode: number | undefined;
  output: string;
  /** Counted from a summary line, else from lines that look like one failure each; 0 when nothing can be counted. */
  failures: number;
  passes: number;
}

/** Reads the result of a terminal call. The exit code stands in brackets below the output; it is missing while the command runs. */
export function readTestRun(text: string): TestRun {
  const code = [...text.matchAll(/^\[[^\n]*?exit code[:\s]+(-?\d+)/gim)].at(-1)?.[1];
  const exitCode = code === undefined || Number(code) < 0 ? undefined : Number(code);
  const output = stripAnsi(text);
  return { exitCode, output, ...countResults(output) };
}

function stripAnsi(text: string): string {
  return text.replace(/\u001b\[[0-9;]*m/g, "");
}

function countResults(output: string): { failures: number; passes: number } {
  const unittest = /^Ran (\d+) tests?/m.exec(output);
  if (unittest) {
    const failures = sum(output, /(?:failures|errors)=(\d+)/g);
    return { failures, passes: Number(unittest[1]) - failures };
  }
  const failures = sum(output, /(?:^|\D)(\d+) (?:failed|failing|failures?)\b/g) || sum(output, /^\W*fail (\d+)$/gm);
  const passes = sum(output, /(?:^|\D)(\d+) (?:passed|passing)\b/g) || sum(output, /^\W*pass (\d+)$/gm);
  return {
    failures: failures || count(output, /^\s*(?:not ok\b|FAIL\b|FAILED\b|--- FAIL|✗|✖|×|[\w.]*(?:Error|Exception)\b)/gm),
    passes: passes || count(output, /^\s*(?:ok\b|PASS\b|PASSED\b|--- PASS|✓|✔)/gm),
  };
}

const sum = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].reduce((total, match) => total + Number(match[1]), 0);
const count = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].length;

/** True when a change helped: everything passes, or fewer tests fail and none that passed got lost. */
export function isBetter(run: TestRun, before: TestRun): boolean {
  if (run.exitCode === 0) return true;
  if (run.exitCode === undefined) return false;
  return run.failures > 0 && run.failures < before.failures && run.passes >= before.passes;
}

export interface Mismatch {
  expected: string;
  actual: string;
}

const value = `("[^"]*"|'[^']*'|\`[^\`]*\`|\\[[^\\]]*\\]|[^\\s,;:()]+)`;
const mismatchPatterns: [RegExp, "expected first" | "actual first"][] = [
  [
    new RegExp(`expected:?\\s+${value}[,;:]?\\s+(?:but\\s+)?(?:got|was|actual|received|found):?\\s+${value}`, "gi"),
    "expected first",
  ],
  [
    new RegExp(`(?:got|actual|received):?\\s+${value}[,;:]?\\s+(?:but\\s+)?(?:want|wanted|expected):?\\s+${value}`, "gi"),
    "actual first",
  ],
  [new RegExp(`(?:AssertionError|Error).*?:\\s*${value}\\s+!==?\\s+${value}`, "g"), "actual first"],
  [new RegExp(`^\\s*${value}\\s+!==\\s+${value}\\s*$`, "gm"), "actual first"],
  [new RegExp(`assert\\s+${value}\\s+==\\s+${value}`, "g"), "actual first"],
];

/** Pairs of values that the output sets against each other. */
export function mismatches(output: string): Mismatch[] {
  return mismatchPatterns.flatMap(([pattern, order]) =>
    [...output.matchAll(pattern)].map((match) => {
      const [first, second] = [unquote(match[1]!), unquote(match[2]!)];
      return order === "expected first" ? { expected: first, actual: second } : { expected: second, actual: first };
    }),
  );
}

function unquote(text: string): string {
  return text.replace(/^(["'`])(.*)\1$/, "$2");
}
