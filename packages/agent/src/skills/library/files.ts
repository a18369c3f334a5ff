import { mapYielding } from "@sandpiper/core/scheduling/yielding";
import { FrontMatterReader } from "../front-matter.ts";
import { parseSkill } from "../parse.ts";
import { mergeSkills, type Skill, type SkillSource } from "../skill.ts";
import { isReadme, isSkillFile, maxSkills, removeSkillParts } from "../skill-files.ts";

/** A text file; its path is relative to the collection. */
export interface SkillText {
  path: string;
  content: string;
}

const folders = /(^|\/)(skills|microagents|commands)\/[^/]+\.md$/i;

/** SKILL.md anywhere, or other Markdown in a folder for skills. */
export function mayHoldSkill(path: string): boolean {
  return isSkillFile(path) || (folders.test(path) && !isReadme(path));
}

/** Parses skills, the first of each name. The agent cannot read their files in a sandbox. */
export async function parseSkills(files: readonly SkillText[], source: SkillSource): Promise<Skill[]> {
  const reader = new FrontMatterReader();
  const skills = await mapYielding(removeSkillParts(files), ({ path, content }) =>
    parseSkill(path, content, source, { location: null, reader }),
  );
  return mergeSkills(skills.filter((skill) => skill !== undefined)).slice(0, maxSkills);
}

/** Lets messages that name an invocable skill activate it. */
export function addNameTriggers(skills: readonly Skill[]): Skill[] {
  return skills.map((skill) => {
    if (skill.type !== "agentskills" || skill.triggers.length > 0) return skill;
    return { ...skill, triggers: [skill.name, `/${skill.name}`] };
  });
}
