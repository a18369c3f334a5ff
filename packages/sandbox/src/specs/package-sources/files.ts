import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const maxBytes = 1 << 20;

/** The text of a configuration file; empty when it is unreadable. */
export function readText(path: string): string {
  try {
    return statSync(path).isFile() && statSync(path).size <= maxBytes ? readFileSync(path, "utf8") : "";
  } catch {
    return "";
  }
}

/** Sorted paths of a folder's entries; empty for a missing folder. */
export function listEntries(folder: string): string[] {
  try {
    return readdirSync(folder)
      .sort()
      .map((name) => join(folder, name));
  } catch {
    return [];
  }
}
