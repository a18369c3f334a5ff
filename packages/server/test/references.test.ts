import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { referenceProblems } from "../../../scripts/check/references.ts";

let base: string;
/** Not in the citation itself: the check reads this file too. */
const absent = "absent.md";

beforeEach(() => {
  base = `${mkdtempSync(join(tmpdir(), "sandpiper-references-"))}/`;
  write(
    "docs/contract/platform.md",
    "# Platform\n\n## 2. Resources\n\n### 2.1 Settings\n\n```\n## 9. No heading\n```\n",
  );
});

afterEach(() => rmSync(base, { recursive: true }));

function write(path: string, text: string): void {
  mkdirSync(dirname(join(base, path)), { recursive: true });
  writeFileSync(join(base, path), text);
}

test("citations of existing sections of the contract resolve, also across lines", () => {
  write("packages/a/src/a.ts", "/**\n * Settings (platform.md\n * sections 2 and 2.1).\n */\n");
  expect(referenceProblems(base)).toEqual([]);
});

test("citations of missing sections and pages of the contract are problems", () => {
  write(
    "packages/a/src/a.ts",
    `// platform.md section 2.2\n\n// platform.md section 9\n// ${absent} section 1\n`,
  );
  expect(referenceProblems(base)).toEqual([
    "packages/a/src/a.ts:1: docs/contract/platform.md has no section 2.2",
    "packages/a/src/a.ts:3: docs/contract/platform.md has no section 9",
    "packages/a/src/a.ts:4: there is no docs/contract/absent.md",
  ]);
});

test("missing files, anchors and paths in Markdown pages are problems; code is ignored", () => {
  write("README.md", "# A b\n\n[x](#a-b) [y](docs/absent.md) `[z](absent.md)`\n\n`packages/absent.ts`\n");
  write("docs/a.md", "[x](../README.md#a-c)\n\n```\n[y](absent.md)\n```\n");
  expect(referenceProblems(base)).toEqual([
    "README.md:3: there is no docs/absent.md",
    "README.md:5: there is no packages/absent.ts",
    "docs/a.md:1: README.md has no #a-c",
  ]);
});
