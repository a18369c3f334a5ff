import { posix } from "node:path";
import { mapYielding } from "@sandpiper/core/scheduling/yielding";
import { trimTail } from "@sandpiper/core/trim";
import { type CommandRunner, runScript } from "@sandpiper/sandbox/files/files";
import { emitFunction, type FoundFile, readRecords } from "./file-records.ts";
import { type FrontMatterCache, FrontMatterReader } from "./front-matter.ts";
import { parseSkill } from "./parse.ts";
import { mergeSkills, type Skill } from "./skill.ts";
import { isReadme, maxBytes, maxFileBytes, maxSkills, removeSkillParts } from "./skill-files.ts";

/** Depth of nested rule files, their names, and skipped folders. */
const maxDepth = 8;
const ruleFiles = named("AGENTS.md", "agents.md", "AGENT.md", "CLAUDE.md", "GEMINI.md", ".cursorrules");
const pruned = named(
  ...".git .hg node_modules .venv venv vendor target __pycache__ .agents .openhands".split(" "),
);

/**
 * Writes `source size path NUL content` for each skill file. Arguments: working folder, byte limit,
 * plugin folders. Order of precedence: working folder, git root, plugins, home, nested rules.
 */
const findSkillsScript = `
work=$1 LIMIT=$2; shift 2
export LIMIT
${emitFunction}
folders() {
  for folder in .agents/skills .openhands/skills .openhands/microagents; do
    [ -d "$1/$folder" ] && emit -L "$1/$folder" -maxdepth 4 -name '*.md'
  done
}
project() {
  for file in AGENTS.md agents.md AGENT.md CLAUDE.md GEMINI.md .cursorrules; do
    [ -f "$1/$file" ] && emit -L "$1/$file" -maxdepth 0
  done
  folders "$1"
}
kind=project
project "$work"
root=$work
while [ -n "$root" ] && [ ! -e "$root/.git" ]; do root=\${root%/*}; done
[ -n "$root" ] && [ "$root" != "$work" ] && project "$root"
for plugin; do
  for folder in skills commands; do
    kind=project
    [ "$folder" = commands ] && kind=command
    [ -d "$plugin/$folder" ] && emit -L "$plugin/$folder" -maxdepth 3 -name '*.md'
  done
  kind=project
  [ -f "$plugin/SKILL.md" ] && emit -L "$plugin/SKILL.md" -maxdepth 0
done
kind=user
[ -n "$HOME" ] && [ "$HOME" != "$root" ] && folders "$HOME"
# Not below a folder that is no project, such as / or the home.
kind=nested
if [ "$root" = "$work" ] || { [ "$work" != / ] && [ "$work" != "$HOME" ]; }; then
  emit "$work" -mindepth 1 -maxdepth ${maxDepth} -type d \\( ${pruned} \\) -prune -o -type f \\( ${ruleFiles} \\)
fi
exit 0`;

function named(...names: string[]): string {
  return names.map((name) => `-name ${name}`).join(" -o ");
}

const { basename, dirname, relative } = posix;

/** Nested rules, and reported problems. */
const maxNested = 100;
const maxProblems = 10;

/** Control characters, for example of terminal colours. */
const unseen = /[\u0001-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

const timeoutMs = 20_000;

export interface LoadSkillsOptions {
  workingDir: string;
  /** CLAUDE.md only counts for Claude, GEMINI.md only for Gemini. */
  model?: string | undefined;
  /** Plugin folders in the sandbox. */
  plugins?: readonly string[];
  /** Front matter of earlier loads. */
  frontMatter?: FrontMatterCache | undefined;
}

export interface SkillLoadResult {
  skills: Skill[];
  problems: string[];
}

/** Like `loadProject`, without the problems. */
export async function loadSkills(sandbox: CommandRunner, options: LoadSkillsOptions): Promise<Skill[]> {
  return (await loadProject(sandbox, options)).skills;
}

/**
 * Loads the skills of a sandbox by precedence: project (working folder, git root), plugins, home,
 * nested rules (agent-behaviour.md section 8). One command; skips unreadable files. Throws what
 * `exec` throws.
 */
export async function loadProject(
  sandbox: CommandRunner,
  options: LoadSkillsOptions,
): Promise<SkillLoadResult> {
  const { skills: read, problems } = await readSkills(sandbox, options);
  const skills = mergeSkills(read);
  if (skills.length > maxSkills) problems.push(`Of ${skills.length} skills and rules ${maxSkills} are used.`);
  const more = problems.length - maxProblems;
  if (more > 0)
    problems.splice(
      maxProblems,
      more,
      `${more} more files of the project's skills and rules are not as they should be.`,
    );
  return { skills: skills.slice(0, maxSkills), problems };
}

/**
 * Every skill that a conversation could use with any model, also those that others of the same name
 * hide: which one is hidden depends on the model. Throws what `exec` throws.
 */
export async function loadAllSkills(
  sandbox: CommandRunner,
  options: Pick<LoadSkillsOptions, "workingDir" | "plugins">,
): Promise<Skill[]> {
  return (await readSkills(sandbox, { ...options, model: allModels })).skills;
}

/** Files like CLAUDE.md count for the models of a family only. */
const allModels = "claude gemini";

/** The skills of all files, in order of precedence. */
async function readSkills(sandbox: CommandRunner, options: LoadSkillsOptions): Promise<SkillLoadResult> {
  const { model = "", plugins = [] } = options;
  const workingDir = trimTail(options.workingDir, "/") || "/";
  const args = [workingDir, String(maxFileBytes + 1), ...plugins];
  const { stdout } = await runScript(sandbox, findSkillsScript, args, {
    timeoutMs,
    maxOutputBytes: maxBytes,
  });
  const found = readRecords(stdout).filter(({ path }) => isForModel(path, model) && !isReadme(path));
  const nested = found
    .filter(({ kind, path }) => kind === "nested" && dirname(path) !== workingDir)
    .slice(0, maxNested);
  const files = [...removeSkillParts(found.filter(({ kind }) => kind !== "nested")), ...nested];
  const problems: string[] = [];
  const reader = new FrontMatterReader(options.frontMatter);
  const read = await mapYielding(files, (file) => readSkill(file, { workingDir, problems, reader }));
  return { skills: read.filter((skill) => skill !== undefined), problems };
}

function readSkill(
  { kind, path, content }: FoundFile,
  { workingDir, problems, reader }: { workingDir: string; problems: string[]; reader: FrontMatterReader },
): Skill | undefined {
  const isCut = Buffer.byteLength(content) > maxFileBytes;
  const report = (what: string) => problems.push(`${path.slice(0, 500)}: ${what}`);
  if (content.includes("\0")) {
    report("it is not text, and is left out.");
    return undefined;
  }
  if (isCut) report(`it is longer than ${maxFileBytes / 1024} KiB, and the rest is left out.`);
  const whole = content.replace(unseen, "");
  const text = isCut ? `${whole.slice(0, maxFileBytes)}\n[The rest is left out. Read ${path}.]` : whole;
  const skill = parseSkill(path, text, kind === "user" ? "user" : "project", { reader });
  if (!skill) return undefined;
  if (skill.problem !== undefined) report(skill.problem);
  if (kind === "nested") return folderRule(skill, path, workingDir);
  if (kind === "command" && skill.type === "repo")
    return { ...skill, type: "knowledge", triggers: [`/${skill.name}`] };
  if (skill.paths) return { ...skill, paths: { ...skill.paths, base: projectOf(path, workingDir) } };
  return skill;
}

/** An always-on file below the project only applies to its folder. */
function folderRule(skill: Skill, path: string, workingDir: string): Skill {
  return {
    ...skill,
    name: relative(workingDir, path),
    type: "knowledge",
    paths: { base: dirname(path), globs: ["**"] },
  };
}

/** Base folder of a rule's paths: the parent of its skills folder, else the working folder. */
function projectOf(path: string, workingDir: string): string {
  const at = path.search(/\/\.(agents|openhands)\/(skills|microagents)\//);
  const folder = at < 0 ? workingDir : path.slice(0, at) || "/";
  return workingDir === folder || workingDir.startsWith(`${folder}/`) ? folder : workingDir;
}

function isForModel(path: string, model: string): boolean {
  const name = basename(path).toLowerCase();
  if (name === "claude.md") return /claude/i.test(model);
  if (name === "gemini.md") return /gemini/i.test(model);
  return true;
}
