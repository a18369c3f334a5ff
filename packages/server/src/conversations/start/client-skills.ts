import { readList, readText } from "@sandpiper/agent/skills/front-matter";
import { readServers } from "@sandpiper/agent/skills/parse";
import type { Skill } from "@sandpiper/agent/skills/skill";
import type { GivenAgent } from "@sandpiper/wire";

const bounds = { maxItems: 100, maxLength: 256 };

/** The skills that a client's agent brings along (agent-server.md section 3.1, agent_context.skills), in our form. */
export function parseClientSkills(agent: GivenAgent | undefined): Skill[] {
  return (agent?.agent_context?.skills ?? []).flatMap((given): Skill[] => {
    if (!given.content && !given.description) return [];
    // Keywords, the words of a task, or the paths of a rule.
    const { keywords, triggers: words, paths } = (given.trigger ?? {}) as Record<string, unknown>;
    const globs = readList(Array.isArray(paths) ? paths : [], { ...bounds, maxLength: 1_000 });
    const triggers = readList([keywords, words].find(Array.isArray) ?? [], bounds);
    const listed = given.is_agentskills_format === true;
    const { inputs: asked, disable_model_invocation: hidden, mcp_tools } = given as Record<string, unknown>;
    const mcpServers = readServers(mcp_tools);
    const inputs = parseInputs(asked);
    return [
      {
        name: given.name,
        type: triggers.length > 0 || globs.length > 0 ? "knowledge" : listed ? "agentskills" : "repo",
        content: given.content ?? "",
        triggers: globs.length > 0 ? [] : triggers,
        source: "project",
        description: given.description ?? null,
        location: listed && given.source?.startsWith("/") ? given.source : null,
        ...(globs.length > 0 && { paths: { globs } }),
        ...(inputs.length > 0 && { inputs }),
        ...(hidden === true && { hidden: true }),
        ...(mcpServers && { mcpServers }),
      },
    ];
  });
}

function parseInputs(value: unknown): NonNullable<Skill["inputs"]> {
  return (Array.isArray(value) ? value.slice(0, bounds.maxItems) : []).flatMap((item: unknown) => {
    const { name, description } = (item ?? {}) as Record<string, unknown>;
    const known = readText(name, bounds.maxLength);
    return known ? [{ name: known, description: readText(description, 1_024) ?? "" }] : [];
  });
}
