import { describe, expect, test } from "vitest";
import { collaboratorProblems } from "../../../scripts/check/collaborators.ts";
import { importProblems } from "../../../scripts/check/imports.ts";
import { lengthProblems } from "../../../scripts/check/lengths.ts";
import { regexProblems } from "../../../scripts/check/regexes.ts";

const conversations = "packages/server/src/conversations";
const file = (path: string, ...imports: string[]) => ({
  path,
  text: imports.map((specifier) => `import { x } from "${specifier}";\n`).join(""),
});

describe("the structure check", () => {
  test.each([
    ["nested quantifiers", "const a = /^(?:a+)+$/;"],
    ["adjacent quantifiers", "const a = /^\\w*\\d*x/;"],
    ["a tail that is tried from each character", "const a = text.replace(/\\/+$/, '');"],
    ["a constant text", 'const a = new RegExp("^(?:a+)+$");'],
    ["a template with constants", "const b = String.raw`\\s*`; const a = new RegExp(`^${b}${b}x$`);"],
    ["a joined list", 'const b = ["x", "(?:y+)+z"]; const a = new RegExp(b.join("|"));'],
  ])("refuses a regular expression that is not linear: %s", (_name, text) => {
    expect(regexProblems([{ path: "packages/core/src/a.ts", text }])).not.toEqual([]);
  });

  test("allows regular expressions that are linear, and what is outside of packages", () => {
    const text = "const a = [/^\\w+\\.\\d+$/, /[a-z]+/g, new RegExp(`^${name}[a-z]{1,60}:`)];";
    const bad = "const a = /(?:a+)+$/;";
    expect(regexProblems([{ path: "packages/core/src/a.ts", text }])).toEqual([]);
    for (const path of ["scripts/a.ts", "packages/core/src/a.test.ts"])
      expect(regexProblems([{ path, text: bad }])).toEqual([]);
  });

  test.each([
    ["wire -> server", file("packages/wire/src/a.ts", "@sandpiper/server/platform")],
    ["core -> models", file("packages/core/src/a.ts", "@sandpiper/models/model")],
    ["models -> sandbox", file("packages/models/src/a.ts", "@sandpiper/sandbox/driver")],
    ["sandbox -> agent", file("packages/sandbox/src/a.ts", "@sandpiper/agent/loop/step")],
    ["agent -> server", file("packages/agent/src/a.ts", "@sandpiper/server/store/store")],
    ["a library of another package", file("packages/agent/src/a.ts", "kysely")],
    ["a relative path into another package", file("packages/agent/src/a.ts", "../../core/src/errors.ts")],
  ])("refuses an import against the dependencies of a package: %s", (_name, bad) => {
    expect(importProblems([bad])).toHaveLength(1);
  });

  test.each([
    ["store -> users", file("packages/server/src/store/a.ts", "../users/api.ts")],
    ["conversations -> http", file(`${conversations}/run/a.ts`, "../../http/app.ts")],
    ["recording -> http", file("packages/server/src/recording/a.ts", "../http/app.ts")],
    ["http -> platform", file("packages/server/src/http/a.ts", "../platform.ts")],
    ["log -> run", file(`${conversations}/log/a.ts`, "../run/run.ts")],
    ["run -> commands", file(`${conversations}/run/a.ts`, "../commands/commands.ts")],
    ["api -> log", file(`${conversations}/api.ts`, "./log/hub.ts")],
    ["a file outside of all rooms", file(`${conversations}/a.ts`)],
  ])("refuses an import of a higher room: %s", (_name, bad) => {
    expect(importProblems([bad])).toHaveLength(1);
  });

  test.each([
    ["common -> oci", file("packages/sandbox/src/drivers/common/a.ts", "../oci/oci-driver.ts")],
    ["docker -> oci", file("packages/sandbox/src/drivers/docker/a.ts", "../oci/cgroup/cgroups.ts")],
    ["oci -> docker", file("packages/sandbox/src/drivers/oci/storage/a.ts", "../../docker/engine.ts")],
  ])("refuses an import between sandbox drivers: %s", (_name, bad) => {
    expect(importProblems([bad])).toHaveLength(1);
  });

  test("refuses an import circle of type imports", () => {
    const circle = ["a", "b", "c"].map((name, index) => ({
      path: `packages/core/src/${name}.ts`,
      text: `import type { X } from "./${["b", "c", "a"][index]}.ts";\n`,
    }));
    expect(importProblems(circle)).toEqual([expect.stringContaining("Import circle")]);
    expect(importProblems(circle.slice(1))).toEqual([]);
  });

  test("allows imports of declared packages and of lower rooms", () => {
    const good = [
      file("packages/agent/src/a.ts", "@sandpiper/core/errors", "@sandpiper/wire", "node:fs", "yaml"),
      file("packages/server/src/http/a.ts", "../users/api.ts", "@sandpiper/sandbox/driver"),
      file("packages/core/src/a.test.ts", "vitest", "fast-check"),
    ];
    expect(importProblems(good)).toEqual([]);
  });

  test("refuses files of more than 400 lines and comments of more than 100 columns", () => {
    const path = "packages/core/src/a.ts";
    expect(lengthProblems([{ path, text: "x;\n".repeat(400) }])).toEqual([]);
    expect(lengthProblems([{ path, text: "x;\n".repeat(401) }])).toHaveLength(1);
    expect(lengthProblems([{ path, text: `// ${"x".repeat(97)}\n` }])).toEqual([]);
    expect(lengthProblems([{ path, text: `// ${"x".repeat(98)}\n` }])).toHaveLength(1);
    expect(lengthProblems([{ path, text: `  /** ${"x".repeat(98)} */\n` }])).toHaveLength(1);
    expect(lengthProblems([{ path, text: `/**\n * ${"x".repeat(98)}\n */\n` }])).toHaveLength(1);
    expect(lengthProblems([{ path, text: `* ${"text of a prompt ".repeat(9)}\n` }])).toEqual([]);
  });

  describe("counts the collaborators of a class", () => {
    const members = (...names: string[]) => names.map((name) => `  ${name}: { x: 1; y(): 2 };\n`).join("");
    const source = (path: string, name: string, parents: string, body: string, head = "") => ({
      path: `packages/core/src/${path}.ts`,
      text: `${head}export interface ${name}${parents} {\n${body}}\nclass ${path} {\n  constructor(deps: ${name}) {}\n}\n`,
    });
    const base = source("a", "ADeps", "", members("a", "b", "c", "d", "e", "f"));
    const check = (...files: { path: string; text: string }[]) => collaboratorProblems(files, []);
    const head = `import type { ADeps } from "./a.ts";\n`;

    test("and refuses more than six members, optional ones and methods included", () => {
      expect(check(base)).toEqual([]);
      const body = `${members("a", "b", "c", "d", "e")}  /** Not: z; */\n  f?: () => void;\n  g(x: 1): void;\n`;
      expect(check(source("b", "BDeps", "", body))).toEqual([expect.stringContaining("BDeps has 7 members")]);
    });

    test.each([
      [" extends ADeps", 7],
      [" extends ADeps, OtherDeps", 7],
      [`\n  extends Omit<ADeps, "a" | "b">`, 0],
      [` extends Pick<ADeps, "a" | "b" | "c" | "d" | "e" | "f">`, 7],
      [` extends Pick<ADeps, "a">`, 0],
    ])("with the members of an extended interface: %j", (parents, count) => {
      const found = check(base, source("b", "BDeps", parents, members("g"), head));
      expect(found).toEqual(count ? [expect.stringContaining(`BDeps has ${count} members`)] : []);
    });

    test("except of interfaces without a constructor, and refuses needless exceptions", () => {
      const many = source("b", "BDeps", " extends ADeps", members("g"), head);
      expect(check(base, { ...many, text: many.text.replace("constructor", "make") })).toEqual([]);
      expect(collaboratorProblems([base, many], ["BDeps"])).toEqual([]);
      expect(collaboratorProblems([base], ["BDeps"])).toEqual([expect.stringContaining("no exception")]);
    });
  });
});
