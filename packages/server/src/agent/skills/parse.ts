import { basename, dirname } from "node:path";
import { splitFrontMatter } from "./front-matter.ts";
import type { Skill, SkillSource } from "./skill.ts";
import { isSkillFile } from "./skill-files.ts";

/** Most characters of a skill that are kept, of its name, of its description, and most triggers. */
const maxContent = 64 * 1024;
const maxName = 128;
const maxDescription = 1024;
const maxTriggers = 100;

/** Names of files that always apply, and the skill's name where that differs from the file's. */
const alwaysOn: Record<string, string> = {
  "agents.md": "agents",
  "agent.md": "agents",
  "claude.md": "claude",
  "gemini.md": "gemini",
  ".cursorrules": "cursorrules",
};

/** Whether a file is one that always applies, whatever its front matter says. */
function isAlwaysOn(path: string): boolean {
  return Object.hasOwn(alwaysOn, basename(path).toLowerCase());
}

/**
 * Reads one skill file (agent-behaviour.md section 8). `path` decides what it is: `SKILL.md` names its skill by its folder,
 * AGENTS.md and its like always apply. Broken front matter is passed over: the text below it still counts.
 * Undefined for a file without text, and for rules that apply to paths only, which this version does not follow.
 */
export function parseSkill(path: string, text: string, source: SkillSource, location: string | null = path): Skill | undefined {
  const { facts, body } = splitFrontMatter(text);
  const content = body.trim().slice(0, maxContent);
  if (content === "") return undefined;
  const file = basename(path);
  if (isAlwaysOn(path)) {
    const name = alwaysOn[file.toLowerCase()]!;
    return { name, type: "repo", content, triggers: [], source, description: null, location };
  }
  const isFolder = isSkillFile(path);
  const named = typeof facts.name === "string" ? facts.name.trim() : "";
  const name = (named || (isFolder ? basename(dirname(path)) : file.replace(/\.md$/i, ""))).slice(0, maxName);
  if (name === "" || name === ".") return undefined;
  if (hasItems(facts.paths)) return undefined;
  const description = typeof facts.description === "string" ? facts.description.trim().slice(0, maxDescription) || null : null;
  const triggers = readTriggers(facts.triggers);
  if (hasItems(facts.inputs)) triggers.push(`/${name}`);
  const type = isFolder ? "agentskills" : triggers.length > 0 ? "knowledge" : "repo";
  return { name, type, content, triggers: [...new Set(triggers)], source, description, location };
}

function readTriggers(value: unknown): string[] {
  const list = typeof value === "string" ? value.split(",") : Array.isArray(value) ? value : [];
  const words = list.filter((word) => typeof word === "string" || typeof word === "number");
  return words
    .map((word) => String(word).trim().slice(0, maxName))
    .filter(Boolean)
    .slice(0, maxTriggers);
}

function hasItems(value: unknown): boolean {
  return (Array.isArray(value) && value.length > 0) || (typeof value === "string" && value.trim() !== "");
}
