import { posix } from "node:path";

/** An absolute path inside a sandbox without `.` and `..`; a relative path starts at `folder`. */
export function resolveInside(folder: string, path: string): string {
  return posix.resolve("/", folder, path);
}
