import { expect, test } from "vitest";
import { isBetter, mismatches, readTestRun } from "./test-run.ts";

const ended = (output: string, exitCode = 1) => readTestRun(`${output}\n[The command completed with exit code ${exitCode}.]`);

test.each([
  ["Ran 5 tests in 0.01s\n\nFAILED (failures=1, errors=1)", 2, 3],
  ["=== 2 failed, 3 passed in 0.12s ===", 2, 3],
  ["# tests 4\n# pass 3\n# fail 1", 1, 3],
  ["ℹ pass 3\nℹ fail 1", 1, 3],
  ["  3 passing (5ms)\n  1 failing", 1, 3],
  ["ok 1 - a\nnot ok 2 - b", 1, 1],
  ["\u001b[31m✗ adds\u001b[0m\n✓ subtracts", 1, 1],
  ["Segmentation fault", 0, 0],
])("%j counts %i failures and %i passes", (output, failures, passes) => {
  expect(ended(output)).toMatchObject({ failures, passes, exitCode: 1 });
});

test("the exit code is the terminal's, not one that a test prints", () => {
  expect(ended("expected exit code 3", 1).exitCode).toBe(1);
  expect(
    readTestRun("expected exit code 3\n[The command is still running after 60 seconds, its timeout.]").exitCode,
  ).toBeUndefined();
  expect(readTestRun("…\n[Exit code: 2]").exitCode).toBe(2);
});

test("fewer failures help only when nothing that passed got lost", () => {
  const before = ended("2 failed, 3 passed");
  expect(isBetter(ended("1 failed, 4 passed"), before)).toBe(true);
  expect(isBetter(ended("1 failed, 0 passed"), before)).toBe(false);
  expect(isBetter(ended("2 failed, 3 passed"), before)).toBe(false);
  expect(isBetter(ended("anything", 0), before)).toBe(true);
  expect(isBetter(readTestRun("1 failed, 4 passed"), before)).toBe(false);
});

test.each([
  ["FAIL x: expected 12, got 7", "12", "7"],
  ["FAIL x: expected 1h30m, got 15h", "1h30m", "15h"],
  ["got 7, want 12", "12", "7"],
  ["Expected: 12\nReceived: 7", "12", "7"],
  ["AssertionError: 7 != 12", "12", "7"],
  ["    7 !== 12", "12", "7"],
  ["E       assert 7 == 12", "12", "7"],
  ["expected 'a b' but got \"c d\"", "a b", "c d"],
])("%j sets values against each other", (output, expected, actual) => {
  expect(mismatches(output)).toContainEqual({ expected, actual });
});

test("hostile output is read quickly", () => {
  const start = Date.now();
  for (const piece of ["expected ", "assert ", "Error: ", "[", '"', " != ", "a ", "FAIL "])
    ended(piece.repeat(30_000 / piece.length));
  for (const piece of ["expected ", "assert ", "Error: ", "[", '"', " != ", "a ", "FAIL "])
    mismatches(piece.repeat(30_000 / piece.length));
  expect(Date.now() - start).toBeLessThan(3_000);
});
