import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const name = "@openhands/typescript-client";

/** The released TypeScript clients that are tested. */
export const typescriptClients = ["1.36.1", "1.39.0"] as const;

/** A folder whose node_modules has the client, installed at first use. */
export function installTypescriptClient(cache: string, version: string): string {
  const folder = join(cache, `typescript-${version}`);
  const complete = join(folder, "complete");
  if (existsSync(complete)) return folder;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true }));
  process.stderr.write(`Installing the TypeScript client ${version} …\n`);
  const args = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
  execFileSync("npm", [...args, `${name}@${version}`], { cwd: folder, stdio: ["ignore", 2, 2] });
  writeFileSync(complete, "");
  return folder;
}
