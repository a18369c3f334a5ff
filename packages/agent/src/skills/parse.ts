import { basename, dirname } from "node:path";
import { isObject } from "@sandpiper/core/is-object";
import { FrontMatterReader, isList, isText, parseText, readList, wrongFields } from "./front-matter.ts";
import type { Skill, SkillSource } from "./skill.ts";
import { isSkillFile } from "./skill-files.ts";

/** Limits: characters of a skill, its name and description; triggers. */
const maxContent = 64 * 1024;
const maxName = 128;
const maxDescription = 1024;
const maxTriggers = 100;

/** Characters of its MCP servers; more are ignored. */
const maxServers = 32 * 1024;

/** Always-on files, and the names of their skills. */
const alwaysOn: Record<string, string> = {
  "agents.md": "agents",
  "agent.md": "agents",
  "claude.md": "claude",
  "gemini.md": "gemini",
  ".cursorrules": "cursorrules",
};

export interface ParseSkillOptions {
  /** Where the agent can read the file; null: nowhere. */
  location?: string | null;
  /** Shared by the files of one load. */
  reader?: FrontMatterReader;
}

/**
 * Parses a skill file (agent-behaviour.md section 8). SKILL.md is named after its folder, AGENTS.md
 * and the like always apply, `paths` makes a rule. Undefined without text.
 */
export function parseSkill(
  path: string,
  text: string,
  source: SkillSource,
  { location = path, reader = new FrontMatterReader() }: ParseSkillOptions = {},
): Skill | undefined {
  const { facts, body, broken } = reader.split(text);
  const content = body.trim().slice(0, maxContent);
  if (content === "") return undefined;
  const file = basename(path);
  const mcpServers = readServers(facts.mcp_tools);
  const common = { content, source, location, ...(mcpServers && { mcpServers }) };
  const unread = { ...(broken && { problem: "its front matter cannot be read, and does not count." }) };
  if (Object.hasOwn(alwaysOn, file.toLowerCase())) {
    const name = alwaysOn[file.toLowerCase()]!;
    return { ...common, ...unread, name, type: "repo", triggers: [], description: null };
  }
  const wrong = wrongFields(facts, kinds);
  const problem =
    wrong.length === 0 ? unread : { problem: `of its front matter ${wrong.join(", ")} cannot be used.` };
  const isFolder = isSkillFile(path);
  const name =
    parseText(facts.name, maxName) ??
    (isFolder ? basename(dirname(path)) : file.replace(/\.md$/i, "")).slice(0, maxName);
  if (name === "" || name === ".") return undefined;
  const description = parseText(facts.description, maxDescription) ?? null;
  const globs = readList(facts.paths, { maxItems: maxTriggers, maxLength: 1_000 });
  if (globs.length > 0)
    return { ...common, ...problem, name, type: "knowledge", triggers: [], description, paths: { globs } };
  const triggers = readList(facts.triggers, { maxItems: maxTriggers, maxLength: maxName });
  const inputs = readInputs(facts.inputs);
  const hidden = facts["disable-model-invocation"] === true;
  if (inputs.length > 0 || hidden) triggers.push(`/${name}`);
  const type = isFolder ? "agentskills" : triggers.length > 0 ? "knowledge" : "repo";
  const more = { ...(inputs.length > 0 && { inputs }), ...(hidden && { hidden }) };
  return { ...common, ...problem, name, type, triggers: [...new Set(triggers)], description, ...more };
}

const kinds = {
  ...{ name: isText, description: isText, triggers: isList, paths: isList },
  inputs: (value: unknown) => isText(value) || Array.isArray(value),
  mcp_tools: isObject,
};

/** A skill's MCP servers by name, also below `mcpServers`; undefined when there are none. */
export function readServers(value: unknown): Record<string, unknown> | undefined {
  const map = isObject(value) && isObject(value.mcpServers) ? value.mcpServers : value;
  return isObject(map) && Object.keys(map).length > 0 && JSON.stringify(map).length <= maxServers
    ? map
    : undefined;
}

function readInputs(value: unknown): NonNullable<Skill["inputs"]> {
  const list = Array.isArray(value)
    ? value.slice(0, maxTriggers)
    : typeof value === "string"
      ? value.split(",")
      : [];
  return list.flatMap((item) => {
    const { name, description } = typeof item === "object" && item !== null ? item : { name: item };
    const cleanName = parseText(name, maxName);
    return cleanName ? [{ name: cleanName, description: parseText(description, maxDescription) ?? "" }] : [];
  });
}
