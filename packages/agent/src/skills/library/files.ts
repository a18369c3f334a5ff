import { mapYielding } from "@sandpiper/core/scheduling/yielding";
import { parseSkill } from "../parse.ts";
import { mergeSkills, type Skill, type SkillSource } from "../skill.ts";
import { isReadme, isSkillFile, maxSkills, withoutParts } from "../skill-files.ts";

/** A text file of a collection of skills; the path is relative to the collection and has no leading slash. */
export interface SkillText {
  path: string;
  content: string;
}

const folders = /(^|\/)(skills|microagents|commands)\/[^/]+\.md$/i;

/** Whether a file of a repository may hold a skill: SKILL.md anywhere, other Markdown in a folder for skills. */
export function mayHoldSkill(path: string): boolean {
  return isSkillFile(path) || (folders.test(path) && !isReadme(path));
}

/** The skills of files, the first of each name. They lie outside of sandboxes, so that the agent cannot read them there. */
export async function skillsOf(files: readonly SkillText[], source: SkillSource): Promise<Skill[]> {
  const skills = await mapYielding(withoutParts(files), ({ path, content }) =>
    parseSkill(path, content, source, null),
  );
  return mergeSkills(skills.filter((skill) => skill !== undefined)).slice(0, maxSkills);
}

/** The skills in the form in which a conversation uses them: those that the agent may read also join the messages that name them. */
export function namedByMessages(skills: readonly Skill[]): Skill[] {
  return skills.map((skill) => {
    if (skill.type !== "agentskills" || skill.triggers.length > 0) return skill;
    return { ...skill, triggers: [skill.name, `/${skill.name}`] };
  });
}
