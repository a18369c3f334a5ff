import { basename } from "node:path";
import { mapYielding } from "@sandpiper/core/scheduling/yielding";
import { trimTail } from "@sandpiper/core/trim";
import { type CommandRunner, runScript } from "@sandpiper/sandbox/files/files";
import type { GivenAgent } from "@sandpiper/wire";
import { emitFunction, readRecords } from "./file-records.ts";
import { FrontMatterReader, isList, isText, parseText, readList, wrongFields } from "./front-matter.ts";
import { isReadme, maxFileBytes } from "./skill-files.ts";

/** A sub-agent of a project, a plugin or the home folder (agent-behaviour.md section 12). */
export interface AgentDefinition {
  name: string;
  /** What it is for; read by the agent that delegates. */
  description: string;
  /** Replaces the platform's instructions. */
  systemPrompt: string;
  /** Tool names. Default: the usual tools. */
  tools?: string[];
  /** LLM profile or model. Default: the parent's. */
  model?: string;
  /** How clients show it. */
  color?: string;
  /** Its file in the sandbox, absolute, and whether that is in the home folder. */
  path?: string;
  isUsers?: boolean;
  permissionMode?: "always_confirm" | "never_confirm" | "confirm_risky";
  /** Steps per task. Default: the parent's limit. */
  maxIterations?: number;
  /** USD per task. Default: the parent's budget. Clients only, as what follows. */
  maxBudget?: number;
  /** Names of the only skills that it has. Default: the parent's skills. */
  skills?: string[];
  /** MCP servers instead of the parent's. */
  mcpServers?: Record<string, unknown>;
  /** Condenser instead of the parent's. */
  condenser?: NonNullable<GivenAgent["condenser"]>;
  /** Hooks after those of the parent, in the form of `toHookConfig`. */
  hooks?: Record<string, unknown>;
}

export interface LoadAgentDefinitionsOptions {
  workingDir: string;
  /** Plugin folders in the sandbox. */
  plugins?: readonly string[];
  /** Receives sentences about problems. */
  report?: (sentence: string) => void;
}

/** Limits: definitions, characters of texts, bytes of all files, time in ms. */
const maxDefinitions = 50;
const maxName = 64;
const maxDescription = 2_000;
const maxBytes = 2 ** 20;
const timeoutMs = 20_000;

const permissionModes = ["always_confirm", "never_confirm", "confirm_risky"] as const;

const isMode = (value: unknown) => permissionModes.some((mode) => mode === value);
const isCount = (value: unknown) => Number.isSafeInteger(Number(value)) && Number(value) > 0;

const kinds = {
  ...{ name: isText, description: isText, tools: isList, model: isText, color: isText },
  ...{ permission_mode: isMode, "permission-mode": isMode },
  ...{ max_iteration_per_run: isCount, max_iterations: isCount },
};

/** Arguments: working folder, byte limit, plugin folders; in order of precedence. */
const findScript = `
work=$1 LIMIT=$2; shift 2
export LIMIT
${emitFunction}
kind=agent
agents() { [ -d "$1" ] && emit -L "$1" -maxdepth 1 -name '*.md'; }
project() { agents "$1/.agents/agents"; agents "$1/.openhands/agents"; }
project "$work"
root=$work
while [ -n "$root" ] && [ ! -e "$root/.git" ]; do root=\${root%/*}; done
[ -n "$root" ] && [ "$root" != "$work" ] && project "$root"
for plugin; do agents "$plugin/agents"; done
kind=user
[ -n "$HOME" ] && [ "$HOME" != "$root" ] && project "$HOME"
exit 0`;

/**
 * Loads the sub-agents of a sandbox, one per name: project (working folder, git root), plugins,
 * home folder. One command; skips invalid files. Throws what `exec` throws.
 */
export async function loadAgentDefinitions(
  sandbox: CommandRunner,
  options: LoadAgentDefinitionsOptions,
): Promise<AgentDefinition[]> {
  const { workingDir, plugins = [], report: tell } = options;
  const args = [trimTail(workingDir, "/") || "/", String(maxFileBytes), ...plugins];
  const { stdout } = await runScript(sandbox, findScript, args, { timeoutMs, maxOutputBytes: maxBytes });
  const files = readRecords(stdout).filter(({ path }) => !isReadme(path));
  const definitions = new Map<string, AgentDefinition>();
  const reader = new FrontMatterReader();
  const parsed = await mapYielding(files, ({ path, content, kind }) => {
    const found = parseAgentDefinition(path, content, tell, reader);
    return found && kind === "user" ? { ...found, isUsers: true } : found;
  });
  for (const found of parsed)
    if (found && !definitions.has(found.name) && definitions.size < maxDefinitions)
      definitions.set(found.name, found);
  return [...definitions.values()];
}

/** Parses a definition. Undefined without instructions or a usable name. */
export function parseAgentDefinition(
  path: string,
  text: string,
  report: (sentence: string) => void = () => {},
  reader = new FrontMatterReader(),
): AgentDefinition | undefined {
  const reportProblem = (what: string) => void report(`${path.slice(0, 500)}: ${what}`);
  if (text.includes("\0")) return reportProblem("it is not text, and describes no sub-agent.");
  const { facts, body, broken } = reader.split(text);
  const systemPrompt = body.trim();
  const name = parseText(facts.name, maxName) ?? basename(path).replace(/\.md$/i, "").slice(0, maxName);
  if (systemPrompt === "")
    return reportProblem("it has no instructions below its front matter, and describes no sub-agent.");
  if (!/^[\w.:-]+$/.test(name))
    return reportProblem(
      "its name has other characters than letters, digits and _.:-, so there is no such sub-agent.",
    );
  const wrong = wrongFields(facts, kinds);
  if (broken) reportProblem("its front matter cannot be read, and does not count.");
  else if (wrong.length > 0) reportProblem(`of its front matter ${wrong.join(", ")} cannot be used.`);
  const tools = readList(facts.tools, { maxItems: 100, maxLength: 200 });
  const model = parseText(facts.model, 256);
  const color = parseText(facts.color, 32);
  const mode = parseText(facts.permission_mode ?? facts["permission-mode"], 64);
  const permissionMode = permissionModes.find((candidate) => candidate === mode);
  const iterations = facts.max_iteration_per_run ?? facts.max_iterations;
  return {
    name,
    description: parseText(facts.description, maxDescription) ?? "",
    systemPrompt,
    path,
    ...(color && { color }),
    ...(tools.length > 0 && { tools }),
    ...(model && model !== "inherit" && { model }),
    ...(permissionMode && { permissionMode }),
    ...(isCount(iterations) && { maxIterations: Number(iterations) }),
  };
}
