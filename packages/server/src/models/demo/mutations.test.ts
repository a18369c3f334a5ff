import { expect, test } from "vitest";
import { mutateLine } from "./mutations.ts";
import type { Mismatch } from "./test-run.ts";
import type { Language } from "./tokens.ts";

const lines = (line: string, language: Language, wrong: Mismatch[] = []) =>
  mutateLine(line, language, wrong).map((mutation) => mutation.line);
const best = (line: string, language: Language, wrong: Mismatch[]) =>
  mutateLine(line, language, wrong).sort((a, b) => b.weight - a.weight)[0]?.line;

test.each<[Language, string, string]>([
  ["c-like", "return a - b;", "return a + b;"],
  ["c-like", "for (let i = 0; i <= n; i++) {", "for (let i = 0; i < n; i++) {"],
  ["c-like", "return items.length - 2;", "return items.length - 1;"],
  ["c-like", "return a && b;", "return a || b;"],
  ["c-like", "if (!ready) wait();", "if (ready) wait();"],
  ["c-like", "return Math.min(a, 3);", "return Math.max(a, 3);"],
  ["c-like", "return divide(total, count);", "return divide(count, total);"],
  ["python", "    return n // 2 == 0", "    return n % 2 == 0"],
  ["python", "    if not done:", "    if done:"],
  ["python", "    if done:", "    if not (done):"],
  ["python", "    return a and b", "    return a or b"],
  ["python", "    flag = True", "    flag = False"],
  ["shell", "  echo $(($1 + $2))", "  echo $(($1 * $2))"],
  ["shell", '  [ "$n" -lt 3 ] || return 1', '  [ "$n" -le 3 ] || return 1'],
  ["shell", "  h) echo 60 ;;", "  h) echo 3600 ;;"],
])("%s: %s may become %s", (language, line, expected) => {
  expect(lines(line, language)).toContain(expected);
});

test.each<[Language, string]>([
  ["shell", "  rm -rf ./build/out > /dev/null 2>&1"],
  ["shell", '  echo "$1" | tr a-z A-Z'],
  ["shell", "# seconds: 60 * 60"],
  ["shell", "  exit 1"],
  ["python", "# 1 + 1"],
  ["python", '    print("1 + 1 == 2")'],
  ["c-like", "// a < b"],
  ["c-like", " * @param a 1 + 1"],
  ["c-like", "const text = `1 + 1`;"],
])("%s: %s is left alone", (language, line) => {
  expect(lines(line, language)).toEqual([]);
});

test("a constant that explains a wrong result comes first", () => {
  expect(best("  h) echo 60 ;;", "shell", [{ expected: "7200", actual: "120" }])).toBe("  h) echo 3600 ;;");
  expect(best("return n * 30;", "c-like", [{ expected: "31", actual: "30" }])).toBe("return n * 31;");
});
