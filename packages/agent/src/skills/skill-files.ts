import { basename, dirname } from "node:path";

/** Bounds of one collection of skills, of a sandbox too: bytes of a file and of all files, and skills. */
export const maxFileBytes = 64 * 1024;
export const maxBytes = 4 * 1024 * 1024;
export const maxSkills = 200;

/** Whether a file is the head of a skill that is a folder. */
export function isSkillFile(path: string): boolean {
  return basename(path).toLowerCase() === "skill.md";
}

/** Whether a file is about its folder and no skill. */
export function isReadme(path: string): boolean {
  return basename(path).toLowerCase() === "readme.md";
}

/** Without the files beside or below a SKILL.md: they belong to that skill and are none of their own. */
export function withoutParts<File extends { path: string }>(files: readonly File[]): File[] {
  const folders = new Set(files.filter(({ path }) => isSkillFile(path)).map(({ path }) => dirname(path)));
  return files.filter(({ path }) => isSkillFile(path) || !isInside(path, folders));
}

function isInside(path: string, folders: ReadonlySet<string>): boolean {
  for (let folder = dirname(path); folder !== "." && folder !== "/"; folder = dirname(folder))
    if (folders.has(folder)) return true;
  return false;
}
