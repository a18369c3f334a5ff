import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const maxBytes = 1 << 20;

/** The text of a configuration file; empty where there is none that can be read. */
export function readText(path: string): string {
  try {
    return statSync(path).isFile() && statSync(path).size <= maxBytes ? readFileSync(path, "utf8") : "";
  } catch {
    return "";
  }
}

/** Paths of the entries of a folder, sorted; none where there is no such folder. */
export function listEntries(folder: string): string[] {
  try {
    return readdirSync(folder)
      .sort()
      .map((name) => join(folder, name));
  } catch {
    return [];
  }
}
