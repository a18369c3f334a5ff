import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const server = "packages/server/src";

const forbidden: [string, string][] = [
  [`${server}/conversations/a.ts`, "../http/app.ts"],
  [`${server}/agent/a.ts`, "../conversations/service.ts"],
  [`${server}/agent/tools/a.ts`, "../../http/app.ts"],
  [`${server}/callbacks/a.ts`, "../conversations/api.ts"],
  [`${server}/models/a.ts`, "../sandboxes/api.ts"],
  [`${server}/sandboxes/drivers/oci/a.ts`, "../../../agent/tool.ts"],
  [`${server}/users/a.ts`, "../agent/tool.ts"],
  [`${server}/store/sqlite/a.ts`, "../../conversations/state.ts"],
  [`${server}/git/a.ts`, "../sandboxes/api.ts"],
  [`${server}/outbound/a.ts`, "../users/api.ts"],
  [`${server}/users/b.ts`, "../git/api.ts"],
  [`${server}/sandboxes/a.ts`, "../callbacks/api.ts"],
  [`${server}/store/a.ts`, "../callbacks/api.ts"],
  [`${server}/agent/b.ts`, "../callbacks/api.ts"],
  [`${server}/agent/d.ts`, "../recording/recorder.ts"],
  [`${server}/recording/a.ts`, "../http/app.ts"],
  [`${server}/kernel/a.ts`, "../sandboxes/driver.ts"],
  [`${server}/http/v1/a.ts`, "../../platform.ts"],
  [`${server}/cli/a.ts`, "../conversations/service.ts"],
  ["packages/wire/src/a.ts", "../../server/src/errors.ts"],
];
const allowed: [string, string][] = [
  [`${server}/http/v1/b.ts`, "../../conversations/api.ts"],
  [`${server}/conversations/b.ts`, "../agent/step.ts"],
  [`${server}/agent/c.ts`, "../models/model.ts"],
  [`${server}/agent/tools/b.ts`, "../../sandboxes/sandbox.ts"],
  [`${server}/sandboxes/b.ts`, "../store/store.ts"],
  [`${server}/conversations/c.ts`, "../git/api.ts"],
  [`${server}/conversations/d.ts`, "../callbacks/api.ts"],
  [`${server}/conversations/e.ts`, "../recording/recorder.ts"],
  [`${server}/recording/b.ts`, "../conversations/api.ts"],
  [`${server}/sandboxes/c.ts`, "./git/git.ts"],
  [`${server}/sandboxes/network/b.ts`, "../../outbound/addresses.ts"],
  [`${server}/git/b.ts`, "../outbound/api.ts"],
  [`${server}/cli/b.ts`, "@sandpiper/wire"],
];

/** Lints a project with the real rules and one import in each file; gives the files that break the rule. */
async function breakers(files: [string, string][], form: (from: string) => string): Promise<string[]> {
  const project = await mkdtemp(join(tmpdir(), "sandpiper-test-"));
  try {
    const { vcs: _none, $schema: _schema, ...rules } = JSON.parse(await readFile(`${root}biome.json`, "utf8"));
    await writeFile(join(project, "biome.json"), JSON.stringify(rules));
    for (const [file, from] of files) {
      await mkdir(dirname(join(project, file)), { recursive: true });
      await writeFile(join(project, file), form(from));
    }
    const output = lint(project);
    const broken = JSON.parse(output).diagnostics.filter((found: any) => found.category === "lint/style/noRestrictedImports");
    return [...new Set<string>(broken.map((found: any) => JSON.stringify(found.location)))];
  } finally {
    await rm(project, { recursive: true, force: true });
  }
}

function lint(project: string): string {
  const options = { cwd: project, encoding: "utf8", stdio: "pipe" } as const;
  try {
    return execFileSync(`${root}node_modules/.bin/biome`, ["lint", "--reporter=json", "--max-diagnostics=200", "."], options);
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}

const forms: Record<string, (from: string) => string> = {
  value: (from) => `import { x } from "${from}";\nx();\n`,
  type: (from) => `import type { X } from "${from}";\nexport type Y = X;\n`,
  export: (from) => `export { x } from "${from}";\n`,
  dynamic: (from) => `await import("${from}");\n`,
};

test.each(Object.keys(forms))("a %s import against the direction of the rooms is an error", async (form) => {
  const broken = await breakers([...forbidden, ...allowed], forms[form]!);
  for (const [file] of forbidden) expect(broken.join()).toContain(file);
  for (const [file] of allowed) expect(broken.join()).not.toContain(file);
});
