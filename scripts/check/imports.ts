import { readFileSync } from "node:fs";
import { join } from "node:path";
import { importsOf, root, type SourceFile } from "./source-files.ts";

/**
 * Rooms that import only rooms below them, from the top down. A path that ends in a slash is a
 * folder.
 */
const roomOrders: readonly { folder: string; rooms: readonly string[] }[] = [
  {
    folder: "packages/server/src/",
    rooms: [
      "main.ts",
      "cli/",
      "platform.ts",
      "kept-files.ts",
      "shared-slots.ts",
      "owner-duties.ts",
      "sandbox-driver.ts",
      "http/",
      "recording/",
      "conversations/",
      "callbacks/",
      "git/",
      "users/",
      "nodes/",
      "store/",
      "config/",
    ],
  },
  {
    folder: "packages/server/src/conversations/",
    rooms: [
      "service.ts",
      "wiring.ts",
      "adoption.ts",
      "release.ts",
      "start/",
      "commands/",
      "views/",
      "run/",
      "agent/",
      "project/",
      "log/",
      "lookup.ts",
      "sandbox-joins.ts",
      "custody.ts",
      "api.ts",
    ],
  },
];

const drivers = "packages/sandbox/src/drivers/";
/** Folders below `drivers` that do not import each other. */
const forbiddenImports: Readonly<Record<string, readonly string[]>> = {
  "common/": ["docker/", "kubernetes/", "oci/"],
  "docker/": ["kubernetes/", "oci/"],
  "kubernetes/": ["docker/", "oci/"],
  "oci/": ["docker/", "kubernetes/"],
};

const isTest = (path: string) => path.includes(".test.ts") || path.includes("/test/");

/**
 * Problems of imports: undeclared packages, upward imports between rooms, and circles (type imports
 * count). One sentence each.
 */
export function importProblems(files: readonly SourceFile[], base = root): string[] {
  return [
    ...files.flatMap((file) => [
      ...packageProblems(file, base),
      ...roomProblems(file),
      ...driverProblems(file),
    ]),
    ...circles(files),
  ];
}

/**
 * Imports of packages that the own package.json does not declare; tests may use devDependencies.
 */
function packageProblems(file: SourceFile, base: string): string[] {
  const [, own] = /^packages\/([^/]+)\//.exec(file.path) ?? [];
  if (!own) return [];
  const manifest = JSON.parse(readFileSync(join(base, `packages/${own}/package.json`), "utf8"));
  const declared = new Set(Object.keys(manifest.dependencies ?? {}));
  if (isTest(file.path)) {
    const top = JSON.parse(readFileSync(join(base, "package.json"), "utf8"));
    for (const name of Object.keys({ ...manifest.devDependencies, ...top.devDependencies }))
      declared.add(name);
  }
  return importsOf(file).flatMap(({ specifier, target }) => {
    if (specifier.startsWith("node:") || specifier.includes("$")) return [];
    if (specifier.startsWith(".")) {
      const isInside = target!.startsWith(`packages/${own}/`) || isTest(file.path);
      return isInside
        ? []
        : [`${file.path} leaves its package by ${specifier}: import the package by its name.`];
    }
    const name = specifier
      .split("/")
      .slice(0, specifier.startsWith("@") ? 2 : 1)
      .join("/");
    if (declared.has(name) || name === manifest.name) return [];
    return [`${file.path} imports ${name}, which packages/${own}/package.json does not declare.`];
  });
}

function roomProblems(file: SourceFile): string[] {
  if (isTest(file.path)) return [];
  return roomOrders.flatMap(({ folder, rooms }) => {
    const level = (path: string) => rooms.findIndex((room) => path.startsWith(folder + room));
    const own = level(file.path);
    if (own === -1) {
      const isHere = file.path.startsWith(folder);
      return isHere ? [`${file.path} is in no room: add it to the order in scripts/check/imports.ts.`] : [];
    }
    return importsOf(file).flatMap(({ target }) => {
      const other = target === undefined ? -1 : level(target);
      if (other === -1 || other >= own) return [];
      return [`${file.path} (${rooms[own]}) imports ${target} of the higher room ${rooms[other]}.`];
    });
  });
}

function driverProblems(file: SourceFile): string[] {
  if (isTest(file.path)) return [];
  return Object.entries(forbiddenImports)
    .filter(([from]) => file.path.startsWith(drivers + from))
    .flatMap(([from, folders]) =>
      importsOf(file)
        .filter(({ target }) => folders.some((folder) => target?.startsWith(drivers + folder)))
        .map(
          ({ target }) =>
            `${file.path} imports ${target}: code of ${from} may not; move it to drivers/common.`,
        ),
    );
}

/** Strongly connected files (Tarjan), one sentence for each circle. */
function circles(files: readonly SourceFile[]): string[] {
  const edges = new Map(
    files.map((file) => [file.path, importsOf(file).flatMap(({ target }) => target ?? [])]),
  );
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const found: string[] = [];
  const visit = (path: string) => {
    order.set(path, order.size);
    lowest.set(path, order.get(path)!);
    stack.push(path);
    for (const next of edges.get(path)!) {
      if (!edges.has(next)) continue;
      if (!order.has(next)) visit(next);
      if (stack.includes(next)) lowest.set(path, Math.min(lowest.get(path)!, lowest.get(next)!));
    }
    if (lowest.get(path) !== order.get(path)) return;
    const circle = stack.splice(stack.indexOf(path));
    if (circle.length > 1) found.push(`Import circle (type imports count): ${circle.join(" -> ")}.`);
  };
  for (const path of edges.keys()) if (!order.has(path)) visit(path);
  return found;
}
