import { trimTail } from "@sandpiper/core/trim";
import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import type { BehaviourPart } from "@sandpiper/wire";
import { loadHooks } from "../hooks/load.ts";
import { loadAgentDefinitions } from "../skills/agent-definitions.ts";
import { loadAllSkills } from "../skills/load.ts";
import { collectBehaviour } from "./behaviour.ts";
import { readScripts } from "./files.ts";
import { readNamedFiles } from "./named-files.ts";

export interface ReadBehaviourOptions {
  workingDir: string;
  /** Plugin folders in the sandbox. */
  plugins: readonly string[];
  /** MCP servers of the plugins by name. */
  servers: Readonly<Record<string, unknown>>;
}

/**
 * Reads what a project in a sandbox, and its plugins, do by themselves, through the loaders that
 * conversations use. Throws what `exec` throws.
 */
export async function readBehaviour(
  sandbox: CommandRunner,
  { workingDir: folder, plugins, servers }: ReadBehaviourOptions,
): Promise<BehaviourPart[]> {
  const workingDir = trimTail(folder, "/") || "/";
  const [skills, { config: hooks }, agents, scripts] = await Promise.all([
    loadAllSkills(sandbox, { workingDir, plugins }),
    loadHooks(sandbox, { workingDir, plugins }),
    loadAgentDefinitions(sandbox, { workingDir, plugins }),
    readScripts(sandbox, workingDir),
  ]);
  const parts = [...scripts, ...collectBehaviour({ workingDir, skills, hooks, servers, agents })];
  const texts = parts.filter(({ kind }) => kind !== "sub_agent");
  const named = await readNamedFiles(sandbox, { workingDir, plugins }, texts);
  return [...parts, ...named];
}
