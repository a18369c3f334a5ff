import { existsSync } from "node:fs";
import { join } from "node:path";
import type { SandboxSpec } from "../driver.ts";

/** True when a spec's root has one of these files; false for an image (unknown). */
export function hasAnyFile({ root }: Pick<SandboxSpec, "root">, paths: readonly string[]): boolean {
  if (root.kind === "image") return false;
  return paths.some((path) => existsSync(root.kind === "folder" ? join(root.path, path) : path));
}
