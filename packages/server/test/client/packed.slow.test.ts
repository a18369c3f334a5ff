import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { removeSandboxes } from "../support/platform.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

const root = fileURLToPath(new URL("../../../../", import.meta.url));
const run = promisify(execFile);
let base: string;
/** The empty folder into which the package is installed. */
let folder: string;
let models: ModelServer;
let server: ServerProcess;
let examples: string[];
const conversation = { id: "" };

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper packed client "));
  folder = join(base, "an empty folder");
  await mkdir(folder);
  await mkdir(join(base, "home"));
  const pack = join(root, "scripts/client/pack.ts");
  const { stdout } = await run(process.execPath, [pack, base], { cwd: base });
  // Nothing of this machine helps: no settings of npm, no cache and no registry.
  const env = { PATH: process.env.PATH, HOME: join(base, "home"), npm_config_cache: join(base, "cache") };
  const install = ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", stdout.trim()];
  await writeFile(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  await run("npm", install, { cwd: folder, env });
  const readme = await readFile(join(folder, "node_modules/@sandpiper/client/README.md"), "utf8");
  examples = [...readme.matchAll(/(?<!-->\n)```ts\n([\s\S]*?)```/g)].map(([, code]) => code!);
  for (const [index, code] of examples.entries()) await writeFile(join(folder, `example-${index}.ts`), code);
  models = await startModelServer(() => reply.text("Here are two files."));
  server = await startServerProcess(join(base, "data"));
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
});
afterAll(async () => {
  await removeSandboxes(server.call).catch(() => {});
  await server?.end("SIGTERM");
  await models?.close();
  await rm(base, { recursive: true, force: true });
});

/** Types that the wire does not take from their schemas, which say more. */
const handWritten = [
  "AppConversationStartTask",
  "MaterializeAgentProfileRequest",
  "SaveAgentProfileRequest",
  "SaveProfileRequest",
  "SettingsV1Update",
];

/** Checks types as a user's own project does. */
async function compile(options: object, files: string[]): Promise<string> {
  const config = {
    compilerOptions: {
      ...{ strict: true, noEmit: true, module: "nodenext", target: "esnext", skipLibCheck: false },
      ...{ erasableSyntaxOnly: true, allowImportingTsExtensions: true, types: [] },
      ...options,
    },
    files,
  };
  const file = join(folder, "tsconfig.json");
  await writeFile(file, JSON.stringify(config));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const failed = (error: { stdout: string }) => error;
  return (await run(process.execPath, [tsc, "-p", file], { cwd: folder }).catch(failed)).stdout;
}

/** Runs an example as a program and returns the lines that it prints. */
async function execute(index: number): Promise<string[]> {
  const env = { PATH: process.env.PATH, URL: server.url, KEY: server.key, CONVERSATION: conversation.id };
  const { stdout } = await run(process.execPath, [`example-${index}.ts`], {
    cwd: folder,
    env,
    timeout: 100_000,
  });
  return stdout.trim().split("\n");
}

test("the package has no dependency, and its types are those of the schemas, in browsers and in Node.js", async () => {
  const manifest = JSON.parse(
    await readFile(join(folder, "node_modules/@sandpiper/client/package.json"), "utf8"),
  );
  expect(Object.keys(manifest).filter((key) => /dependencies/i.test(key))).toEqual([]);
  expect((await readdir(join(folder, "node_modules"))).filter((name) => !name.startsWith("."))).toEqual([
    "@sandpiper",
  ]);
  const types = await readFile(join(root, "packages/client/src/types.ts"), "utf8");
  const names = [...types.matchAll(/^export type (\w+) /gm)].map(([, name]) => name!);
  expect(names.length).toBeGreaterThan(80);
  const compared = names.filter((name) => !handWritten.includes(name));
  const lines = compared.flatMap((name) => [
    `export const a${name} = (value: packed.${name}): source.${name} => value;`,
    `export const b${name} = (value: source.${name}): packed.${name} => value;`,
  ]);
  const imports = `import type * as packed from "@sandpiper/client";\nimport type * as source from ${JSON.stringify(join(root, "packages/client/src/types.ts"))};\n`;
  await writeFile(join(folder, "equal.ts"), imports + lines.join("\n"));
  const node = { types: ["node"], typeRoots: [join(root, "node_modules/@types")], lib: ["esnext"] };
  const sources = examples.map((_, index) => `example-${index}.ts`);
  expect(await compile({ ...node, skipLibCheck: true }, ["equal.ts"])).toBe("");
  expect(await compile({ ...node, skipLibCheck: true }, sources)).toBe("");
  await writeFile(join(folder, "page.ts"), 'export * from "@sandpiper/client";\n');
  expect(await compile({ lib: ["esnext", "dom", "dom.iterable", "dom.asynciterable"] }, ["page.ts"])).toBe(
    "",
  );
});

test("the whole client takes at most 12 KB, and a page that only follows less than half of it", async () => {
  const sizeOf = async (code: string): Promise<[bytes: number, text: string]> => {
    const entry = join(folder, "entry.js");
    await writeFile(entry, code);
    const bundle = await rolldown({ input: entry, platform: "browser" });
    const { output } = await bundle.generate({ format: "esm", minify: true });
    await bundle.close();
    return [gzipSync(output[0].code).length, output[0].code];
  };
  const [whole] = await sizeOf('export * from "@sandpiper/client";');
  const [part, text] = await sizeOf('export { Connection, follow } from "@sandpiper/client";');
  console.log(`client: ${whole} bytes, follower: ${part} bytes (minified, gzip)`);
  expect(whole).toBeLessThan(12_000);
  expect(part).toBeLessThan(whole / 2 + 500);
  expect(text).not.toContain("/api/v1/secrets");
});

test("the five examples of the README run as they are written", async () => {
  expect(examples).toHaveLength(5);
  const started = await execute(0);
  expect(started).toContain("READY");
  expect(started.at(-1)).not.toBe("undefined");
  const { body } = await server.call("GET", "/api/v1/app-conversations/search");
  conversation.id = body.items[0].id;
  const followed = await execute(1);
  expect(followed.slice(0, 3)).toEqual(["connecting", "live", "true SystemPromptEvent"]);
  expect(followed.at(-1)).toBe("true MessageEvent");
  expect(await execute(2)).toEqual(["true"]);
  expect(await execute(3)).toEqual(["0 6 hello"]);
  expect(await execute(4)).toEqual(["404 SnapshotNotFound false", "32"]);
});
