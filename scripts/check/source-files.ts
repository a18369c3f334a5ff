import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

/** Absolute path of the repository, with a slash at the end. */
export const root = fileURLToPath(new URL("../../", import.meta.url));

export interface SourceFile {
  /** Relative to the repository. */
  path: string;
  text: string;
}

export interface Import {
  /** As written. */
  specifier: string;
  /** Path of the imported file below the repository; undefined for a module of Node.js or npm. */
  target: string | undefined;
}

/** All TypeScript files below the folders, by path. */
export function readSourceFiles(folders: readonly string[], base = root): SourceFile[] {
  const paths = folders.flatMap((folder) =>
    readdirSync(join(base, folder), { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
  );
  return paths
    .filter((path) => path.endsWith(".ts") && !path.includes("node_modules"))
    .sort()
    .map((path) => ({ path, text: readFileSync(join(base, path), "utf8") }));
}

/** Static and dynamic imports of a file, type imports included. */
export function importsOf({ path, text }: SourceFile): Import[] {
  const pattern =
    /^(?:import|export)\s[^"';]*?from\s+"([^"]+)"|^import\s+"([^"]+)"|\bimport\(\s*"([^"]+)"\s*\)/gm;
  return Array.from(text.matchAll(pattern), (match) => {
    const specifier = match[1] ?? match[2] ?? match[3] ?? "";
    return { specifier, target: targetOf(path, specifier) };
  });
}

function targetOf(path: string, specifier: string): string | undefined {
  if (specifier.startsWith(".")) return normalize(join(dirname(path), specifier));
  if (specifier === "@sandpiper/wire") return "packages/wire/src/index.ts";
  const [, name, rest] = /^@sandpiper\/([^/]+)\/(.+)$/.exec(specifier) ?? [];
  if (rest === undefined) return undefined;
  return `packages/${name}/${rest.startsWith("test/") ? rest : `src/${rest}`}.ts`;
}
