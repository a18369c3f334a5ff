import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { buildDefaultAllowlist } from "../default-allowlist.ts";
import { findAptAddresses } from "./apt.ts";
import { findNpmAddresses } from "./npm.ts";
import { findPipAddresses } from "./pip.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sandpiper-sources-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function write(path: string, text: string): void {
  mkdirSync(join(folder, path, ".."), { recursive: true });
  writeFileSync(join(folder, path), text);
}

test("apt's repositories, in both forms", () => {
  write(
    "sources.list",
    "# deb http://old.example/ x\ndeb [arch=amd64 signed-by=/k] https://a.example/debian stable main\n",
  );
  write(
    "sources.list.d/b.sources",
    "# x\nTypes: deb\n# c\nURIs: http://b.example/debian\n https://c.example:8443/\nSuites: x\n\nEnabled: no\nURIs: http://d.example/\n",
  );
  write("sources.list.d/e.list.disabled", "deb http://e.example/ x\n");
  expect(findAptAddresses(folder)).toEqual([
    "https://a.example/debian",
    "http://b.example/debian",
    "https://c.example:8443/",
  ]);
  expect(findAptAddresses(join(folder, "missing"))).toEqual([]);
});

test("npm's registries, configured and built in", () => {
  write(
    "npmrc",
    "registry=https://a.example/npm/\n@scope:registry = https://b.example/\n//a.example/npm/:_authToken=secret\n",
  );
  expect(findNpmAddresses({ HOME: folder }, folder)).toEqual([
    "https://a.example/npm/",
    "https://b.example/",
  ]);
  write(".npmrc", 'registry="https://user.example/"\n');
  expect(findNpmAddresses({ HOME: folder }, folder)[0]).toBe("https://user.example/");
  expect(findNpmAddresses({ HOME: folder, npm_config_registry: "https://c.example/" }, folder)[0]).toBe(
    "https://c.example/",
  );
  expect(findNpmAddresses({ HOME: "/nonexistent" }, "/nonexistent")[0]).toMatch(/^https:\/\/.+/);
});

test("pip's indexes, configured", () => {
  write(
    "pip.conf",
    "[global]\nindex-url = https://a.example/simple\nextra-index-url =\n    https://b.example/simple\n    file:///opt/x\n[install]\nx=1\n",
  );
  expect(findPipAddresses({ HOME: "/nonexistent" }, folder)).toEqual([
    "https://a.example/simple",
    "https://b.example/simple",
    "file:///opt/x",
  ]);
  expect(findPipAddresses({ HOME: "/nonexistent", PIP_INDEX_URL: "https://c.example/" }, folder)[0]).toBe(
    "https://c.example/",
  );
});

test("the allowlist names hosts and ports alone: no path, no password, no file", () => {
  const env = {
    HOME: folder,
    PIP_INDEX_URL: "https://user:secret@c.example:444/simple",
    PIP_EXTRA_INDEX_URL: "file:///opt/x http://c.example",
  };
  const rules = buildDefaultAllowlist(env);
  expect(rules).toContainEqual({ host: "c.example", ports: [444, 80], methods: null });
  expect(JSON.stringify(rules)).not.toContain("secret");
  expect(new Set(rules.map(({ host }) => host)).size).toBe(rules.length);
  expect(rules.every(({ host }) => /^[\w.*:-]+$/.test(host))).toBe(true);
});

test("the allowlist has the archives of images, which are not the machine's", () => {
  const rules = buildDefaultAllowlist({});
  for (const host of ["deb.debian.org", "archive.ubuntu.com", "dl-cdn.alpinelinux.org"])
    expect(rules).toContainEqual({ host, ports: expect.arrayContaining([80, 443]), methods: null });
});

test("the allowlist has the registries of Go, Rust, Ruby and Java", () => {
  const hosts = buildDefaultAllowlist({}).map(({ host }) => host);
  for (const host of ["proxy.golang.org", "index.crates.io", "rubygems.org", "repo.maven.apache.org"])
    expect(hosts).toContain(host);
});
