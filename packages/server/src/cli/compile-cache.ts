import { statSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { getuid } from "node:process";
import { fileURLToPath } from "node:url";

const packages = fileURLToPath(new URL("../../../../node_modules/", import.meta.url));

/**
 * Keeps what Node makes of the sources, beside the packages: stripping types and compiling is near
 * half of a start. Only for the owner of the packages, so that nobody else's code is run, and so
 * that root leaves no files in another user's folder.
 */
export function keepCompiledCode(): void {
  try {
    if (statSync(packages).uid === getuid?.()) enableCompileCache(`${packages}.cache/sandpiper`);
  } catch {
    // A start without it is slower, nothing else.
  }
}
