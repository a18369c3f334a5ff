/**
 * Builds the package of the client in a folder of its own and packs it:
 * `scripts/node scripts/client/pack.ts FOLDER` writes FOLDER/sandpiper-client-VERSION.tgz and
 * prints its path. The package has no dependency: its program is one file, and its declarations are
 * written from the schemas of the wire.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import * as wire from "@sandpiper/wire";
import { rolldown } from "rolldown";
import { Declarations, type Schema } from "./declarations.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const source = join(root, "packages/client");

/** The names of the client's types and their schemas. */
function readTypes(): Record<string, Schema> {
  const text = readFileSync(join(source, "src/types.ts"), "utf8");
  const names = [...text.matchAll(/^export type (\w+) = wire\.Static<typeof wire\.(\w+)>;$/gm)];
  const schemas = wire as unknown as Record<string, Schema>;
  return Object.fromEntries(names.map(([, name, schema]) => [name, schemas[schema!]!]));
}

function writeTypes(file: string): void {
  const types = readTypes();
  const all = Object.entries<unknown>(wire).filter(
    ([name, value]) => /^[A-Z]/.test(name) && typeof value === "object" && value !== null,
  );
  const declarations = new Declarations({ ...(Object.fromEntries(all) as Record<string, Schema>), ...types });
  for (const [name, schema] of Object.entries(types)) declarations.add(name, schema);
  writeFileSync(file, `${declarations}`);
}

/** Writes the declarations of the sources, and those of the types from their schemas. */
function writeDeclarations(folder: string): void {
  const config = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: {
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      rootDir: join(source, "src"),
      outDir: folder,
      typeRoots: [join(root, "node_modules/@types")],
    },
    files: [join(source, "src/index.ts")],
    include: [],
  };
  const file = join(folder, "tsconfig.json");
  writeFileSync(file, JSON.stringify(config));
  execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", file], {
    stdio: ["ignore", 2, 2],
  });
  rmSync(file);
  writeTypes(join(folder, "types.d.ts"));
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".d.ts")) continue;
    const path = join(folder, name);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replaceAll(/(from "\.[^"]*)\.ts"/g, '$1.js"'));
  }
}

async function writeProgram(file: string): Promise<void> {
  const bundle = await rolldown({ input: join(source, "src/index.ts"), platform: "neutral" });
  await bundle.write({ file, format: "esm" });
  await bundle.close();
}

/** Packs the client into a folder and returns the path of the package. */
export async function packClient(folder: string): Promise<string> {
  const { name, version, license } = JSON.parse(readFileSync(join(source, "package.json"), "utf8"));
  const stage = mkdtempSync(join(tmpdir(), "sandpiper-client-"));
  try {
    mkdirSync(join(stage, "dist"));
    writeDeclarations(join(stage, "dist"));
    await writeProgram(join(stage, "dist/index.js"));
    for (const file of [join(source, "README.md"), join(root, "LICENSE")])
      cpSync(file, join(stage, file.split("/").at(-1)!));
    const manifest = {
      name,
      version,
      license,
      description: "Client of a Sandpiper server, for browsers and Node.js",
      type: "module",
      sideEffects: false,
      engines: { node: ">=22" },
      exports: { ".": { types: "./dist/index.d.ts", default: "./dist/index.js" } },
      files: ["dist"],
    };
    writeFileSync(join(stage, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
    // npm's own settings do not count, and it asks no registry.
    const env = { PATH: process.env.PATH, HOME: stage, npm_config_cache: join(stage, ".npm") };
    const target = resolve(folder);
    const args = ["pack", "--silent", "--offline", "--ignore-scripts", "--pack-destination", target];
    const packed = execFileSync("npm", args, { cwd: stage, env, encoding: "utf8" });
    return join(target, packed.trim());
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

if (import.meta.main) console.log(await packClient(process.argv[2] ?? "."));
