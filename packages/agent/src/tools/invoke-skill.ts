import { posix } from "node:path";
import { isObject } from "@sandpiper/core/is-object";
import type { InvokeSkillAction, InvokeSkillObservation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { Type } from "typebox";
import { lowRisk, type RuleRisk } from "../risk/findings.ts";
import { commandRisk } from "../risk/pattern.ts";
import { inlineCommands, maxCommands, withCommandOutput } from "../skills/inline-commands.ts";
import type { Skill } from "../skills/skill.ts";
import { toolDefinition } from "./definition.ts";
import type { Tool, ToolTraits } from "./tool.ts";

const description =
  "Reads a skill of <available_skills>: instructions for a special task. Call it with the skill's name before you begin such a task, once, and follow what it says.";

const maxNames = 50;

/** The skill's file may change between the approval of a call and its run. */
const changed =
  "[The commands or MCP servers of this skill changed after the call was made, so none was run. Call invoke_skill again to run them.]";

export interface InvokeSkillDeps {
  /** Skills that the conversation's agent may read. */
  skills(): readonly Skill[];
  /** Connects a skill's MCP servers; returns sentences about problems. */
  joinServers(skill: string, signal: AbortSignal): Promise<readonly string[]>;
}

export const invokeSkillTraits = {
  name: "invoke_skill",
  actionKind: "InvokeSkillAction",
  risk: () => lowRisk,
} satisfies ToolTraits<InvokeSkillAction>;

/** The tool of one conversation. */
export function invokeSkillTool({
  skills,
  joinServers,
}: InvokeSkillDeps): Tool<InvokeSkillAction, InvokeSkillObservation> {
  return {
    ...invokeSkillTraits,
    risk: ({ name }) => skillRisk(findSkill(skills(), name)),
    description,
    definition: toolDefinition("invoke_skill", "InvokeSkill", description, "idempotent"),
    parameters: Type.Object({
      name: Type.String({ description: "Name of the skill, as <available_skills> has it." }),
    }),
    // Its text may contain commands.
    idempotent: false,
    readOnly: false,
    describe: ({ name }) => describeSkill(findSkill(skills(), name)),
    resources: ({ name }) => [`skill:${name.trim()}`],
    async run({ name }, { sandbox, workingDir, signal, described }) {
      const known = skills();
      const wanted = name.trim();
      const skill = findSkill(known, name);
      if (!skill) {
        const names = known.slice(0, maxNames).map((one) => one.name);
        const text = `There is no skill ${wanted.slice(0, 200)}. The skills are: ${names.join(", ") || "none"}.`;
        return result(wanted, text, true);
      }
      const does = describeSkill(skill);
      const isShown = does === undefined || does === described;
      const limit = isShown ? maxCommands : 0;
      const text = await withCommandOutput(skill.content, { sandbox, workingDir, signal }, limit);
      const notes = skill.mcpServers && isShown ? [...(await joinServers(skill.name, signal))] : [];
      if (!isShown) notes.push(changed);
      if (skill.location) notes.push(whereFilesLie(posix.dirname(skill.location)));
      return result(skill.name, [text, ...notes].join("\n\n"), false);
    },
  };
}

/** The last words are the reference's, which clients look for. */
function whereFilesLie(folder: string): string {
  return `This skill lies in ${folder}: the paths of files that it names are relative to that directory.`;
}

function findSkill(known: readonly Skill[], name: string): Skill | undefined {
  const wanted = name.trim();
  return (
    known.find((one) => one.name === wanted) ??
    known.find((one) => one.name.toLowerCase() === wanted.toLowerCase())
  );
}

/** All that reading the skill runs and starts; undefined when it only shows a text. */
function describeSkill(skill: Skill | undefined): string | undefined {
  const commands = inlineCommands(skill?.content ?? "").slice(0, maxCommands);
  const servers = Object.entries(skill?.mcpServers ?? {});
  const lines = [
    ...(commands.length > 0 ? ["Reading the skill runs:", ...commands.map((command) => `$ ${command}`)] : []),
    ...(servers.length > 0 ? ["Reading the skill connects MCP servers:"] : []),
    // Skills without a place are the user's own or the operator's, and their servers may have keys.
    ...servers.map(([name, server]) => (skill?.location ? `${name}: ${describeServer(server)}` : name)),
  ];
  return lines.length > 0 ? lines.join("\n") : undefined;
}

/** The command of a server, or its address, without headers, variables and query. */
function describeServer(server: unknown): string {
  if (!isObject(server)) return "";
  const { command, args, url } = server;
  if (command !== undefined) return JSON.stringify([command, ...(Array.isArray(args) ? args : [])]);
  return typeof url === "string" ? url.split(/[?#]/, 1)[0]! : "";
}

/** The call runs the commands in the skill's text. */
function skillRisk(skill: Skill | undefined): RuleRisk {
  const risks = inlineCommands(skill?.content ?? "").map(commandRisk);
  const isLow = risks.every(({ usual }) => usual === "LOW");
  return {
    findings: [...new Set(risks.flatMap(({ findings }) => findings))],
    usual: isLow ? "LOW" : "MEDIUM",
  };
}

function result(name: string, text: string, isError: boolean): InvokeSkillObservation {
  return {
    kind: "InvokeSkillObservation",
    content: [textContent(text)],
    is_error: isError,
    skill_name: name,
  };
}
