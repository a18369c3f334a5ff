import { emitFunction } from "./file-records.ts";

/** Depth of nested rule files, their names, and skipped folders. */
const maxDepth = 8;
const ruleFiles = named("AGENTS.md", "agents.md", "AGENT.md", "CLAUDE.md", "GEMINI.md", ".cursorrules");
const pruned = named(
  ".git",
  ".hg",
  "node_modules",
  ".venv",
  "venv",
  "vendor",
  "target",
  "__pycache__",
  ".agents",
  ".openhands",
);

/**
 * Writes `source size path NUL content` for each skill file. Arguments: working folder, byte limit,
 * plugin folders. Order of precedence: working folder, git root, plugins, home, nested rules.
 */
export const findSkillsScript = `
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
