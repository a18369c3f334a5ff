import { createHash } from "node:crypto";
import type { BehaviourPart } from "@sandpiper/wire";
import type { HookConfig, HookEvent } from "../hooks/config.ts";
import type { AgentDefinition } from "../skills/agent-definitions.ts";
import { inlineCommands } from "../skills/inline-commands.ts";
import { isInvocable } from "../skills/prompt-text.ts";
import type { Skill } from "../skills/skill.ts";

/** What was read of a project: the same that a conversation uses. */
export interface ProjectParts {
  workingDir: string;
  skills?: readonly Skill[];
  hooks?: HookConfig;
  /** MCP servers of plugins by name. */
  servers?: Readonly<Record<string, unknown>>;
  agents?: readonly AgentDefinition[];
}

/** What a project does by itself, in the order of the files; the rest only describes. */
export function collectBehaviour({
  workingDir,
  skills = [],
  hooks = {},
  servers = {},
  agents = [],
}: ProjectParts): BehaviourPart[] {
  const shorten = (path: string) =>
    path.startsWith(`${workingDir}/`) ? path.slice(workingDir.length + 1) : path;
  const parts: BehaviourPart[] = [];
  for (const [event, matchers] of Object.entries(hooks) as [HookEvent, HookConfig[HookEvent]][])
    for (const { matcher, hooks: listed } of matchers ?? [])
      for (const { type, command, systemPrompt, plugin } of listed)
        parts.push({
          kind: type === "command" ? "hook" : "model_hook",
          source: plugin === undefined ? ".openhands/hooks.json" : `${shorten(plugin)}/hooks/hooks.json`,
          text: [`${event} ${matcher}: ${command}`, ...(systemPrompt ? [systemPrompt] : [])].join("\n"),
        });
  for (const skill of skills) {
    // Skills without a place come from the user or the operator.
    if (skill.location === null) continue;
    const source = shorten(skill.location);
    parts.push(...serverParts(skill.mcpServers ?? {}, source));
    const commands = isInvocable(skill) ? inlineCommands(skill.content) : [];
    parts.push(...commands.map((text): BehaviourPart => ({ kind: "skill_command", source, text })));
  }
  parts.push(...serverParts(servers, ".mcp.json"));
  for (const agent of agents) {
    const { name, permissionMode, model, tools, systemPrompt } = agent;
    const asks = {
      ...(permissionMode && { permission_mode: permissionMode }),
      ...(model && { model }),
      ...(tools && { tools }),
    };
    // What it is told decides what it does without a question.
    const text = `${JSON.stringify(asks)}\n${systemPrompt}`;
    if (asksForMore(agent)) parts.push({ kind: "sub_agent", source: name, text });
  }
  return parts;
}

/** Whether a sub-agent asks for fewer confirmations than its parent may have, or its own model. */
export function asksForMore({ permissionMode, model }: AgentDefinition): boolean {
  return permissionMode === "never_confirm" || permissionMode === "confirm_risky" || model !== undefined;
}

function serverParts(servers: Readonly<Record<string, unknown>>, source: string): BehaviourPart[] {
  return Object.entries(servers).map(([name, server]) => ({
    kind: "mcp_server",
    source,
    text: `${name}: ${JSON.stringify(server)}`,
  }));
}

/** The parts that `known` lacks. */
export function missingParts(
  used: readonly BehaviourPart[],
  known: readonly BehaviourPart[],
): BehaviourPart[] {
  const texts = new Set(known.map(toText));
  return used.filter((part) => !texts.has(toText(part)));
}

const toText = ({ kind, source, text }: BehaviourPart) => JSON.stringify([kind, source, text]);

/** The digest (SHA-256, hexadecimal) of what a project does, for the origin that brings it. */
export function digestBehaviour(origin: string, parts: readonly BehaviourPart[]): string {
  return createHash("sha256")
    .update(JSON.stringify([origin, ...parts.map(toText).sort()]))
    .digest("hex");
}
