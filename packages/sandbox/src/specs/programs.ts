import { existsSync } from "node:fs";
import { join } from "node:path";
import type { SandboxSpec } from "../driver.ts";

/**
 * Whether sandboxes of a spec begin with one of these files (absolute paths), as far as that can be seen without a start: what an image holds is not known,
 * which counts as no.
 */
export function hasAnyFile({ root }: Pick<SandboxSpec, "root">, paths: readonly string[]): boolean {
  if (root.kind === "image") return false;
  return paths.some((path) => existsSync(root.kind === "folder" ? join(root.path, path) : path));
}
