import { randomBytes } from "node:crypto";
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
    const draft = `${file}.${randomBytes(6).toString("hex")}`;
    try {
      writeFileSync(draft, randomBytes(6).toString("hex"), { mode: 0o600 });
      // Unlike a rename, a link keeps the file that another process has just created.
      linkSync(draft, file);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    } finally {
      rmSync(draft, { force: true });
    }
  }
  const id = readFileSync(file, "utf8");
  if (!/^[0-9a-f]{12}$/.test(id)) throw new PlatformError("InstallationFileDamaged", { path: file });
  return id;
}
