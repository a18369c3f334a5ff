import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";

/** An id of this data folder that keeps its containers apart from those of others on the same engine. Made at the first call. */
export function installationId(dir: string): string {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const file = join(dir, "installation");
  if (!existsSync(file)) {
    writeFileSync(`${file}.new`, randomBytes(6).toString("hex"), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  }
  const id = readFileSync(file, "utf8");
  if (!/^[0-9a-f]{12}$/.test(id)) {
    throw new PlatformError(
      "SandboxFailed",
      `The file ${file} is damaged: it must hold 12 hexadecimal digits.`,
    );
  }
  return id;
}
