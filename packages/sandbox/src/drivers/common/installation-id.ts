import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";

/**
 * Loads, or creates at the first call, the id that labels what this data folder has at an engine.
 * Throws SandboxFailed when the file is damaged.
 */
export function loadInstallationId(dir: string): string {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const file = join(dir, "installation");
  if (!existsSync(file)) {
    writeFileSync(`${file}.new`, randomBytes(6).toString("hex"), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  }
  const id = readFileSync(file, "utf8");
  if (!/^[0-9a-f]{12}$/.test(id)) throw new PlatformError("InstallationFileDamaged", { path: file });
  return id;
}
