import { posix } from "node:path";

/** An absolute path inside a sandbox, without `.` and `..`; a relative one starts at `folder`. It may lead anywhere inside of the sandbox. */
export function resolveInside(folder: string, path: string): string {
  return posix.resolve("/", folder, path);
}
