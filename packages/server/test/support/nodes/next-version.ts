import { cp, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../../../", import.meta.url));

/** A migration that adds a table, and columns to two tables that each server writes. */
const sql = `CREATE TABLE later_things (id text PRIMARY KEY);
  ALTER TABLE conversations ADD COLUMN later text NOT NULL DEFAULT 'later';
  ALTER TABLE events ADD COLUMN later integer NOT NULL DEFAULT 7;
  CREATE INDEX conversations_later ON conversations (later);`;

/**
 * Copies the program into the folder `dir`, as version 99.0.0 with one more migration of the
 * PostgreSQL schema. Returns the file that starts the copy.
 */
export async function makeNextVersion(dir: string): Promise<string> {
  const packages = await readdir(join(root, "packages"));
  for (const name of packages) {
    const from = join(root, "packages", name);
    await cp(join(from, "src"), join(dir, "packages", name, "src"), { recursive: true });
    await cp(join(from, "package.json"), join(dir, "packages", name, "package.json"));
    await symlink(join(from, "node_modules"), join(dir, "packages", name, "node_modules"));
  }
  await symlink(join(root, "scripts"), join(dir, "scripts"));
  await linkDependencies(dir, packages);
  const server = join(dir, "packages/server");
  await edit(join(server, "package.json"), /"version": "[^"]+"/, '"version": "99.0.0"');
  const migration = JSON.stringify({ name: "later", sql, isCompatible: true });
  await edit(
    join(server, "src/store/postgres/migrate.ts"),
    /export const migrationLock/,
    `(migrations as Migration[]).push(${migration});\n$&`,
  );
  return join(server, "src/main.ts");
}

/** Links the dependencies of the root; the project's packages are those of the copy. */
async function linkDependencies(dir: string, packages: readonly string[]): Promise<void> {
  const modules = join(dir, "node_modules");
  await mkdir(join(modules, "@sandpiper"), { recursive: true });
  for (const name of await readdir(join(root, "node_modules")))
    if (name !== "@sandpiper") await symlink(join(root, "node_modules", name), join(modules, name));
  for (const name of packages) await symlink(join(dir, "packages", name), join(modules, "@sandpiper", name));
}

async function edit(path: string, what: RegExp, by: string): Promise<void> {
  const text = await readFile(path, "utf8");
  if (!what.test(text)) throw new Error(`${path} has no ${what}.`);
  await writeFile(path, text.replace(what, by));
}
