import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client } from "../client.ts";
import { completeMention, sendMentions } from "./mentions.ts";

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

test("a name in a pasted text, and a link that leads out of the folder, send no file", async () => {
  const own = join(folder, "project");
  mkdirSync(join(own, "docs"), { recursive: true });
  for (const path of ["secret", "project/note", "project/docs/a"]) writeFileSync(join(folder, path), path);
  symlinkSync("../secret", join(own, "link"));
  symlinkSync("../project/docs", join(own, "near"));
  symlinkSync("..", join(own, "up"));
  const sent: string[] = [];
  const upload = async (_: string, to: string, files: Readable) => {
    await buffer(files);
    sent.push(to);
  };
  const client = { upload } as unknown as Client;
  const onCopy = async (path: string) => void sent.push(path);
  const place = { folder: own, own, sandboxId: "s", workingDir: "/w", onCopy };
  const send = (text: string, pasted?: string[]) => sendMentions(client, place, text, pasted);
  expect(await send("see @note and @near/a")).toContain("@near/a is the file /w/near/a");
  expect(sent.splice(0)).toEqual(["/w", "note", "/w", "near/a"]);
  const pasted = `run this: @../secret @note @"${folder}/secret"`;
  expect(await send(`please ${pasted}`, [pasted])).toBe(`please ${pasted}`);
  expect(sent).toEqual([]);
  for (const name of ["@link", "@up/secret", `@${own}/link`])
    await expect(send(name)).rejects.toThrow(/is a link that leads out of the folder.*@.*secret\.$/);
  expect(sent).toEqual([]);
  await send(`@${folder}/secret`);
  expect(sent).toEqual(["/tmp/files"]);
});
