import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bindWithoutPasswords } from "./host.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sandpiper-host-"));
  mkdirSync(join(folder, "logging"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const whole = () => [{ source: folder, destination: folder }];
const parts = () => [
  { source: null, destination: folder },
  { source: join(folder, "logging"), destination: join(folder, "logging") },
];

test.each([
  ["settings.xml", "<settings><servers><server><password>x</password></server></servers></settings>"],
  ["settings.xml", "<!-- a --><proxy><!-- b --><password>x</password></proxy>"],
  ["npmrc", "registry=https://a.example/\n//a.example/:_authToken=x\n"],
  ["npmrc", "_password = x"],
])("%s with a password is not in a sandbox, what is beside it is", (file, text) => {
  writeFileSync(join(folder, file), text);
  expect(bindWithoutPasswords({ folder, file })).toEqual(parts());
  expect(bindWithoutPasswords({ folder, file, isBound: true })).toEqual(parts());
});

test.each([
  ["settings.xml", "<settings><!-- <password>example</password> --><mirrors/></settings>"],
  ["npmrc", "registry=https://a.example/\ncafile=/etc/ssl/ca.pem\n"],
])("%s without a password is", (file, text) => {
  writeFileSync(join(folder, file), text);
  expect(bindWithoutPasswords({ folder, file })).toEqual(whole());
  expect(bindWithoutPasswords({ folder, file, isBound: true })).toEqual([]);
});

test("a folder that does not exist is not mounted", () => {
  expect(bindWithoutPasswords({ folder: join(folder, "none"), file: "npmrc" })).toEqual([]);
});
