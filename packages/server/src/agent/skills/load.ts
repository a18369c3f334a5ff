import { basename } from "node:path";
import { mapInTurns } from "../../in-turns.ts";
import { type Files, script } from "../../sandboxes/files.ts";
import { readRecords } from "./file-records.ts";
import { findSkillsScript } from "./find-script.ts";
import { parseSkill } from "./parse.ts";
import { mergeSkills, type Skill, type SkillSource } from "./skill.ts";
import { isReadme, maxBytes, maxFileBytes, maxSkills, withoutParts } from "./skill-files.ts";

/** Time to find them all, ms. */
const timeoutMs = 20_000;

export interface LoadSkillsOptions {
  /** The project's folder. */
  workingDir: string;
  /** Name of the model: CLAUDE.md counts only for Claude, GEMINI.md only for Gemini. Without it neither counts. */
  model?: string | undefined;
  /** Folders of plugins inside the sandbox. */
  plugins?: readonly string[];
}

/**
 * The skills that lie in a sandbox, by precedence: the project's (working folder, then its git root), those of plugins, those of the home folder
 * (agent-behaviour.md section 8). One command; what is too large or unreadable is left out. Throws what `exec` throws.
 */
export async function loadSkills(sandbox: Files, options: LoadSkillsOptions): Promise<Skill[]> {
  const { workingDir, model = "", plugins = [] } = options;
  const args = [workingDir.replace(/\/+$/, "") || "/", String(maxFileBytes), ...plugins];
  const { stdout } = await script(sandbox, findSkillsScript, args, { timeoutMs, maxOutputBytes: maxBytes });
  const files = withoutParts(readRecords(stdout)).filter(({ path }) => isForModel(path, model) && !isReadme(path));
  const skills = await mapInTurns(files, ({ path, content, kind }) => parseSkill(path, content, kind as SkillSource));
  return mergeSkills(skills.filter((skill) => skill !== undefined)).slice(0, maxSkills);
}

function isForModel(path: string, model: string): boolean {
  const name = basename(path).toLowerCase();
  if (name === "claude.md") return /claude/i.test(model);
  if (name === "gemini.md") return /gemini/i.test(model);
  return true;
}
