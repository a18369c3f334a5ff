import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkRegistryAuth } from "./registry-auth.ts";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sandpiper-auth-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function check(text: string | undefined): string {
  const file = join(folder, "auth.json");
  rmSync(file, { force: true });
  if (text !== undefined) writeFileSync(file, text);
  try {
    checkRegistryAuth(file);
    return "";
  } catch (error) {
    return (error as Error).message.replace(file, "FILE");
  }
}

test.each([
  ['{"auths": {"a.example": {"auth": "c2VjcmV0"}}}', ""],
  ['{"auths": {\n  "a": {"auth": "c2VjcmV0",}\n}}', "FILE, is not JSON (line 2, column 28)."],
  ["[]", 'FILE, is no object with "auths", as docker login writes it.'],
  [undefined, "FILE, cannot be read (ENOENT)."],
])("a file of credentials that is broken is named with the place, and quoted nowhere: %j", (text, found) => {
  expect(check(text)).toBe(found && `The file of SANDPIPER_REGISTRY_AUTH, ${found}`);
});
