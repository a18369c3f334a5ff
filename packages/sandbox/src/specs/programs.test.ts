import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { hasAnyFile } from "./programs.ts";

test("the host and folders are searched for files; an image counts as without", () => {
  const path = mkdtempSync("/tmp/sandpiper-test-");
  try {
    mkdirSync(`${path}/usr/bin`, { recursive: true });
    writeFileSync(`${path}/usr/bin/chromium-of-a-test`, "");
    const paths = ["/nowhere", "/usr/bin/chromium-of-a-test"];
    expect(hasAnyFile({ root: { kind: "folder", path } }, paths)).toBe(true);
    expect(hasAnyFile({ root: { kind: "folder", path } }, ["/usr/bin/env"])).toBe(false);
    expect(hasAnyFile({ root: { kind: "host" } }, paths)).toBe(false);
    expect(hasAnyFile({ root: { kind: "host" } }, ["/usr/bin/env"])).toBe(true);
    expect(hasAnyFile({ root: { kind: "image", reference: "debian" } }, ["/usr/bin/env"])).toBe(false);
  } finally {
    rmSync(path, { recursive: true });
  }
});
