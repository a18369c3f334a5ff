/** Knowledge that a repository, the user's home in the sandbox or the operator gives to the agent (agent-behaviour.md section 8). */
export interface Skill {
  name: string;
  /** `repo`: always in the prompt. `knowledge`: joins a user message that holds one of its triggers. `agentskills`: listed in the prompt, read when needed. */
  type: "repo" | "knowledge" | "agentskills";
  /** Markdown, without the front matter. */
  content: string;
  triggers: string[];
  source: SkillSource;
  description: string | null;
  /**
   * A rule: joins the result of a file tool that touches a path which matches one of these patterns, relative to an absolute folder (default: the
   * working folder).
   */
  paths?: { base?: string; globs: string[] };
  /** What a task of this skill takes; the agent asks for what the message does not tell. */
  inputs?: { name: string; description: string }[];
  /** MCP servers that join those of the conversation while the skill is active, by name, unchecked. */
  mcpServers?: Record<string, unknown>;
  /** What is wrong with its front matter, as the end of a sentence about the file. */
  problem?: string;
  /** The agent cannot read it by itself: it waits for its trigger. */
  hidden?: boolean;
  /** Absolute path inside the sandbox; null for a skill that lies elsewhere. */
  location: string | null;
}

/** `project`: the repository or a plugin of the conversation. `user`: the home folder in the sandbox. `global`: this server. */
export type SkillSource = "project" | "user" | "global";

/** One skill a name: what comes first wins, so lists are given by precedence (project, user, global). */
export function mergeSkills(...lists: (readonly Skill[])[]): Skill[] {
  const merged = new Map<string, Skill>();
  for (const skill of lists.flat()) if (!merged.has(skill.name)) merged.set(skill.name, skill);
  return [...merged.values()];
}

/** The skills that the user's settings do not switch off (`disabled_skills`). */
export function enabledSkills(
  skills: readonly Skill[],
  disabled: readonly string[] | null | undefined,
): Skill[] {
  const off = new Set(disabled ?? []);
  return skills.filter(({ name }) => !off.has(name));
}
