import { basename, dirname } from "node:path";

/** Limits of a collection or a sandbox: bytes per file and in total, skills. */
export const maxFileBytes = 64 * 1024;
export const maxBytes = 4 * 1024 * 1024;
export const maxSkills = 200;

export function isSkillFile(path: string): boolean {
  return basename(path).toLowerCase() === "skill.md";
}

export function isReadme(path: string): boolean {
  return basename(path).toLowerCase() === "readme.md";
}

/** Removes files next to or below a SKILL.md: they are parts of that skill. */
export function removeSkillParts<File extends { path: string }>(files: readonly File[]): File[] {
  const folders = new Set(files.filter(({ path }) => isSkillFile(path)).map(({ path }) => dirname(path)));
  return files.filter(({ path }) => isSkillFile(path) || !isInside(path, folders));
}

function isInside(path: string, folders: ReadonlySet<string>): boolean {
  for (let folder = dirname(path); folder !== "." && folder !== "/"; folder = dirname(folder))
    if (folders.has(folder)) return true;
  return false;
}
