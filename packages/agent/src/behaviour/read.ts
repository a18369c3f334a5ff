import { trimTail } from "@sandpiper/core/trim";
import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import type { BehaviourPart } from "@sandpiper/wire";
import { loadHooks } from "../hooks/load.ts";
import { loadAgentDefinitions } from "../skills/agent-definitions.ts";
import { loadSkills } from "../skills/load.ts";
import { collectBehaviour } from "./behaviour.ts";
import { readNamedFiles, readScripts } from "./files.ts";

export interface ReadBehaviourOptions {
  workingDir: string;
  /** Plugin folders in the sandbox. */
  plugins: readonly string[];
  /** MCP servers of the plugins by name. */
  servers: Readonly<Record<string, unknown>>;
}

/** Files like CLAUDE.md count for the models of a family only; here all of them count. */
const allModels = "claude gemini";

/**
 * Reads what a project in a sandbox, and its plugins, do by themselves, through the loaders that
 * conversations use. `origin` is the URL of the repository's remote. Throws what `exec` throws.
 */
export async function readBehaviour(
  sandbox: CommandRunner,
  { workingDir: folder, plugins, servers }: ReadBehaviourOptions,
): Promise<{ parts: BehaviourPart[]; origin?: string }> {
  const workingDir = trimTail(folder, "/") || "/";
  const [skills, { config: hooks }, agents, { parts: scripts, origin }] = await Promise.all([
    loadSkills(sandbox, { workingDir, plugins, model: allModels }),
    loadHooks(sandbox, { workingDir, plugins }),
    loadAgentDefinitions(sandbox, { workingDir, plugins }),
    readScripts(sandbox, workingDir),
  ]);
  const parts = [...scripts, ...collectBehaviour({ workingDir, skills, hooks, servers, agents })];
  const texts = parts.filter(({ kind }) => kind !== "sub_agent").map(({ text }) => text);
  const named = await readNamedFiles(sandbox, workingDir, texts);
  return { parts: [...parts, ...named], ...(origin && { origin }) };
}
