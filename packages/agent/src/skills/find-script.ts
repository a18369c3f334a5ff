import { emitFunction } from "./file-records.ts";

/** How deep below the working folder rules of folders are looked for, in which files, and where not. */
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
 * Writes the files that hold skills in a sandbox, in one command: `source size path NUL content` each. Arguments: the working folder, how many
 * bytes of a file are read, and then folders of plugins. The order is the precedence: working folder, git root above it, plugins, home; then
 * the files of folders below the working folder, which are rules there. Special files are not opened; names may hold anything.
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
