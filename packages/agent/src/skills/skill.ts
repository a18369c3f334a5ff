/** Knowledge from a repository, the home folder or the operator (agent-behaviour.md section 8). */
export interface Skill {
  name: string;
  /** `repo`: in the prompt. `knowledge`: added by a trigger. `agentskills`: read by the agent. */
  type: "repo" | "knowledge" | "agentskills";
  /** Markdown without front matter. */
  content: string;
  triggers: string[];
  source: SkillSource;
  description: string | null;
  /** A rule for touched files that match; `base` is absolute, by default the working folder. */
  paths?: { base?: string; globs: string[] };
  /** Inputs of a task; the agent asks for missing ones. */
  inputs?: { name: string; description: string }[];
  /** Unchecked MCP servers by name, connected while the skill is active. */
  mcpServers?: Record<string, unknown>;
  /** Problem of its front matter, as the end of a sentence. */
  problem?: string;
  /** Only its trigger activates it. */
  hidden?: boolean;
  /** Absolute path in the sandbox; null when stored elsewhere. */
  location: string | null;
}

/** `project`: repository or plugin. `user`: home folder in the sandbox. `global`: this server. */
export type SkillSource = "project" | "user" | "global";

/** Merges by name; earlier lists win (project, user, global). */
export function mergeSkills(...lists: (readonly Skill[])[]): Skill[] {
  const merged = new Map<string, Skill>();
  for (const skill of lists.flat()) if (!merged.has(skill.name)) merged.set(skill.name, skill);
  return [...merged.values()];
}

/** Removes the user's `disabled_skills`. */
export function enabledSkills(
  skills: readonly Skill[],
  disabled: readonly string[] | null | undefined,
): Skill[] {
  const off = new Set(disabled ?? []);
  return skills.filter(({ name }) => !off.has(name));
}
