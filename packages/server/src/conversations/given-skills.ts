import type { GivenAgent } from "@sandpiper/wire";
import type { Skill } from "../agent/skills/skill.ts";

/** The skills that a client's agent brings along (agent-server.md section 3.1, agent_context.skills), in our form. */
export function givenSkills(agent: GivenAgent | undefined): Skill[] {
  return (agent?.agent_context?.skills ?? []).flatMap((given): Skill[] => {
    if (!given.content && !given.description) return [];
    const triggers = readTriggers(given.trigger);
    const listed = given.is_agentskills_format === true;
    return [
      {
        name: given.name,
        type: triggers.length > 0 ? "knowledge" : listed ? "agentskills" : "repo",
        content: given.content ?? "",
        triggers,
        source: "project",
        description: given.description ?? null,
        location: listed && given.source?.startsWith("/") ? given.source : null,
      },
    ];
  });
}

/** Keywords, or the words of a task trigger; a skill for paths is read only where it applies. */
function readTriggers(trigger: unknown): string[] {
  const { keywords, triggers } = (trigger ?? {}) as { keywords?: unknown; triggers?: unknown };
  const words = Array.isArray(keywords) ? keywords : Array.isArray(triggers) ? triggers : [];
  return words.filter((word): word is string => typeof word === "string" && word.length > 0 && word.length <= 256).slice(0, 100);
}
