import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Takes the pictures of the documentation from real runs (`npm run screenshots`). With `--check` it
 * changes nothing and names the pictures that are stale; exit code 1 then.
 */
const pictures = join(import.meta.dirname, "../../../docs/pictures");
const check = process.argv.includes("--check");
const folder = mkdtempSync(join(tmpdir(), "sandpiper-pictures-"));
const { status, stdout } = spawnSync(
  "unshare",
  [
    ...["--net", "--mount", "--pid", "--fork", "--kill-child=SIGTERM", "--mount-proc"],
    ...[process.execPath, join(import.meta.dirname, "take.ts"), folder],
  ],
  { stdio: ["ignore", "pipe", "inherit"], encoding: "utf8", maxBuffer: 64 * 1024 * 1024 },
);
rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
if (status !== 0) process.exit(1);
const taken = Object.entries(JSON.parse(stdout) as Record<string, string>).map(([name, svg]) => ({
  name,
  svg,
}));
for (const { name, svg } of taken) {
  const file = join(pictures, `${name}.svg`);
  const old = existsSync(file) ? readFileSync(file, "utf8") : undefined;
  console.log(`${name}.svg ${old === svg ? "is up to date" : check ? "is STALE" : "is new"}`);
  if (old === svg) continue;
  if (check) process.exitCode = 1;
  else writeFileSync(file, svg);
}
for (const file of readdirSync(pictures).filter(
  (name) => !taken.some((picture) => name === `${picture.name}.svg`),
)) {
  console.log(`${file} belongs to no scene`);
  process.exitCode = 1;
}
