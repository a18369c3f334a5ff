const reasons: Readonly<Record<string, string>> = {
  ENOENT: "it, or a folder of its path, does not exist",
  ENOTDIR: "a part of its path is a file",
  EISDIR: "it is a folder",
  EACCES: "this user may not",
  EPERM: "this user may not",
  ELOOP: "its links lead in a circle",
  EROFS: "its file system is read-only",
  ENOSPC: "the disk is full",
  ENAMETOOLONG: "its name is too long",
};

/** Why a file could not be read or written, in a few words without its path. */
export function describeFileFailure(error: unknown): string {
  const { code = "", message = String(error) } = (error ?? {}) as NodeJS.ErrnoException;
  return reasons[code] ?? message;
}
