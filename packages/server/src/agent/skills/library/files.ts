import { basename, dirname } from "node:path";
import { parseSkill } from "../parse.ts";
import { mergeSkills, type Skill, type SkillSource } from "../skill.ts";

/** A text file of a collection of skills; the path is relative to the collection and has no leading slash. */
export interface SkillText {
  path: string;
  content: string;
}

/** Bounds of one collection: bytes of a file, of all files, and skills. */
export const maxFileBytes = 64 * 1024;
export const maxBytes = 4 * 1024 * 1024;
const maxSkills = 200;

const folders = /(^|\/)(skills|microagents|commands)\/[^/]+\.md$/i;

/** Whether a file of a repository may hold a skill: SKILL.md anywhere, other Markdown in a folder for skills. */
export function mayHoldSkill(path: string): boolean {
  return /(^|\/)skill\.md$/i.test(path) || (folders.test(path) && !/(^|\/)readme\.md$/i.test(path));
}

/**
 * The skills of files, the first of each name. They lie outside of sandboxes, so that the agent cannot read them there: one that it would
 * have to read becomes knowledge, which joins the messages that name it.
 */
export function skillsOf(files: readonly SkillText[], source: SkillSource): Skill[] {
  const skillFolders = new Set(files.filter(({ path }) => isSkillFile(path)).map(({ path }) => dirname(path)));
  const parts = files.filter(({ path }) => isSkillFile(path) || !isInside(path, skillFolders));
  const skills = parts.flatMap(({ path, content }) => parseSkill(path, content, source, null) ?? []);
  return mergeSkills(skills).slice(0, maxSkills);
}

/** The skills in the form in which a conversation can use them without reading files. */
export function withoutFiles(skills: readonly Skill[]): Skill[] {
  return skills.map((skill) => {
    if (skill.type !== "agentskills") return skill;
    return { ...skill, type: "knowledge", triggers: skill.triggers.length > 0 ? skill.triggers : [skill.name, `/${skill.name}`] };
  });
}

function isSkillFile(path: string): boolean {
  return basename(path).toLowerCase() === "skill.md";
}

function isInside(path: string, roots: ReadonlySet<string>): boolean {
  for (let folder = dirname(path); folder !== "." && folder !== "/"; folder = dirname(folder)) if (roots.has(folder)) return true;
  return false;
}
