import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { completeMention } from "./mentions.ts";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sandpiper-mentions-"));
  mkdirSync(join(folder, "my docs"));
  for (const name of ["plan.txt", "play \x1b]0;owned\x07.txt", "pl\u202ean.txt", "my docs/a b.txt"])
    writeFileSync(join(folder, name), "");
});
afterAll(() => rmSync(folder, { recursive: true }));

test("names with characters that act on a terminal are not offered", () => {
  expect(completeMention(folder, "read @pl")).toEqual([["@plan.txt"], "@pl"]);
});

test("a name with spaces is completed in quotes", () => {
  expect(completeMention(folder, "read @my")).toEqual([['@"my docs/'], "@my"]);
  expect(completeMention(folder, 'read @"my docs/a')).toEqual([['@"my docs/a b.txt"'], '@"my docs/a']);
});

test("only a word that begins with @ at the end of the line is completed", () => {
  for (const line of ["read", "ann@pl", "@plan.txt and", 'see @"my docs/a b.txt" and'])
    expect(completeMention(folder, line)).toBeUndefined();
});

test("a long line is read once", () => {
  for (const piece of ["@", '@"', "a@ ", '"'])
    expect(() => completeMention(folder, piece.repeat(100_000))).not.toThrow();
});
