import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Command } from "./support/command.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
let base = "";
let env: NodeJS.ProcessEnv = {};
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper-test-"));
  env = { SANDPIPER_DATA: join(base, "data") };
});
afterEach(() => rm(base, { recursive: true, force: true }));

test("the demo repairs a failing test in a real sandbox, shows its work live, and exits with 0", async () => {
  const demo = new Command(["demo", "--exit"], env);
  expect(await demo.exit, demo.stdout + demo.stderr).toBe(0);
  const inOrder = [
    /\$ sh test\.sh\n +.*exit 1/,
    /file_editor str_replace \/workspace\/project\//,
    /\$ sh test\.sh\n +.*exit 0/,
    /finish /,
    /^diff --git a\//m,
    /run +finished, [\d,]+ tokens/,
    /test +sh test\.sh passes in the sandbox now/,
    /sandbox start +[\d.]+ m?s/,
    /first event +[\d.]+ m?s/,
    /whole run +[\d.]+ m?s/,
  ];
  let rest = demo.stdout;
  for (const pattern of inOrder) {
    const match = pattern.exec(rest);
    expect(match, `${pattern} in order in\n${demo.stdout}`).not.toBeNull();
    rest = rest.slice(match!.index + 1);
  }
  expect(demo.stderr).toBe("");
});

test("the demo exits with 1 when the test fails in the sandbox, regardless of what the agent says", async () => {
  const project = join(base, "project");
  await cp(join(root, "packages/server/demo/project"), project, { recursive: true });
  // Passes while the agent looks at it, and never again.
  await writeFile(join(project, "test.sh"), "[ -e ../count ] && exit 1\nsh real.sh && touch ../count\n");
  await cp(join(root, "packages/server/demo/project/test.sh"), join(project, "real.sh"));
  const script = `import(${JSON.stringify(join(root, "packages/server/src/cli/demo.ts"))})
    .then(({ demo }) => demo({ exit: true, project: ${JSON.stringify(project)} })).then((code) => process.exit(code))`;
  const demo = new Command(["-e", script], env, { program: [join(root, "scripts/node")] });
  const code = await demo.exit;
  expect(demo.stdout).toMatch(/test +sh test\.sh FAILS in the sandbox now/);
  expect(code).toBe(1);
});

test("without --exit the demo keeps serving, its curl line works, and a signal ends it without leftovers", async () => {
  const demo = new Command(["demo"], { ...env, SANDPIPER_PORT: "0" });
  const [line] = await demo.says(/curl -H .*'$/m);
  await demo.says(/Ctrl-C ends it/);
  const answer = JSON.parse(
    execFileSync("sh", ["-c", line.replace("curl", "curl -sS --fail")], { encoding: "utf8" }),
  );
  expect(answer.items.map((event: any) => event.kind)).toContain("ObservationEvent");
  expect(demo.stdout).toMatch(/API key +sp_/);
  expect(demo.stdout).toMatch(/log in +http:\/\/\S+\/login#link=[\w-]{43} /);
  demo.signal("SIGTERM");
  expect(await demo.exit).toBe(0);
  const left = execFileSync("sh", ["-c", `ls ${base}/data/demo/sandboxes/sandboxes`], { encoding: "utf8" });
  expect(left).toBe("");
  expect(existsSync(join(base, "data/store"))).toBe(false);
});
