import { closeSync, fstatSync, openSync, readFileSync } from "node:fs";
import { call, native } from "../../../kernel/libc.ts";

const O_CLOEXEC = 0o2000000;
const O_DIRECTORY = 0o200000;
const O_NONBLOCK = 0o4000;
const O_PATH = 0o10000000;
const RESOLVE_NO_MAGICLINKS = 0x02;
const RESOLVE_IN_ROOT = 0x10;
/** The same number on every architecture that came after x86-64 and arm64. */
const openat2Number = 437;
const openat2 = native(
  "long syscall(long number, int folder, const char *path, const uint64_t *how, size_t size)",
);
const maxBytes = 1 << 20;

/**
 * Reads a text file of a root filesystem as a process in it would see it: links are followed within the root and never lead out of it.
 * Undefined when there is no such regular file, or one of more than 1 MB.
 */
export function readInRoot(root: string, path: string): string | undefined {
  const folder = openSync(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  try {
    const how = [O_CLOEXEC | O_NONBLOCK, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS];
    const buffer = BigUint64Array.from(how.map(BigInt));
    const file = call("openat2", () =>
      Number(openat2(openat2Number, folder, path, buffer, buffer.byteLength)),
    );
    try {
      const found = fstatSync(file);
      return found.isFile() && found.size <= maxBytes ? readFileSync(file, "utf8") : undefined;
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (
      ["ENOENT", "ENOTDIR", "ELOOP", "EACCES", "EXDEV", "ENXIO"].includes(
        (error as NodeJS.ErrnoException).code ?? "",
      )
    )
      return undefined;
    throw error;
  } finally {
    closeSync(folder);
  }
}
