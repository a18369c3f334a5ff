import { isObject } from "@sandpiper/core/is-object";
import {
  ConfirmationPolicy,
  type RecordingHeader,
  SecurityAnalyzer,
  SettingsV1Update,
} from "@sandpiper/wire";
import { type Static, Type } from "typebox";
import { Check, Clean, Errors } from "typebox/value";
import type { AgentDocument } from "../store/conversation-parts.ts";
import type { ConversationConfig, NewConversation } from "../store/conversation-store.ts";
import { emptyConfig } from "../store/empty-config.ts";
import { RecordingUnusable } from "./read.ts";

const nullableText = Type.Optional(Type.Union([Type.String(), Type.Null()]));

/** The part of the recorded configuration that affects the agent. */
const Config = Type.Object({
  workingDir: Type.String({ pattern: "^/" }),
  maxIterations: Type.Integer({ minimum: 1 }),
  agentType: Type.Union([Type.Literal("default"), Type.Literal("plan")]),
  browser: Type.Optional(Type.Boolean()),
  llmModel: nullableText,
  selectedRepository: nullableText,
  selectedBranch: nullableText,
  gitProvider: nullableText,
  systemMessageSuffix: nullableText,
  disabledSkills: Type.Optional(Type.Array(Type.String())),
  ownAgent: Type.Optional(Type.Boolean()),
  confirmationPolicy: Type.Optional(ConfirmationPolicy),
  securityAnalyzer: Type.Optional(Type.Union([SecurityAnalyzer, Type.Null()])),
  stuckDetection: Type.Optional(Type.Boolean()),
  task: Type.Optional(Type.Object({ id: Type.String(), subagent: Type.String() })),
});

/** The conversation of the replay, with notes for its first message. Throws RecordingUnusable. */
export function toReplayedConversation(
  conversation: RecordingHeader["conversation"],
  notes: readonly string[],
): Pick<NewConversation, "config" | "context"> & { agent: AgentDocument | undefined } {
  const given = Clean(Config, structuredClone(conversation.config)) as Static<typeof Config>;
  if (!Check(Config, given)) {
    const [problem] = Errors(Config, given);
    throw new RecordingUnusable(
      `The configuration in its header is wrong at ${problem?.instancePath}: ${problem?.message}.`,
    );
  }
  const { agent } = conversation;
  const config: ConversationConfig = {
    ...emptyConfig(given.workingDir),
    ...(given as Partial<ConversationConfig>),
    ownAgent: given.ownAgent === true && agent !== undefined,
    // A title would need a model call.
    autotitle: false,
  };
  return {
    config,
    agent: config.ownAgent ? omitServers(agent as AgentDocument) : undefined,
    ...(conversation.context && {
      context: {
        document: { ...withoutServers(conversation.context), problems: [...notes] },
        activated: [],
      },
    }),
  };
}

/** The settings that a recording has; others would name addresses, images and commands. */
const replayedSettings = ["max_budget_per_task", "disabled_skills"];
const replayedAgentSettings = [
  "tools",
  "tool_concurrency_limit",
  "enable_sub_agents",
  "enable_switch_llm_tool",
  "condenser",
];

/** The recorded settings as a V1 change; undefined when they are invalid. */
export function parseSettings(settings: Record<string, unknown>): SettingsV1Update | undefined {
  const { agent_settings_diff: agent } = settings;
  const change = {
    ...pick(settings, replayedSettings),
    ...(isObject(agent) && { agent_settings_diff: pick(agent, replayedAgentSettings) }),
  };
  return Check(SettingsV1Update, change) ? change : undefined;
}

function pick(fields: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => names.includes(name)));
}

/** The context without the MCP servers of plugins and skills. */
function withoutServers({ mcpServers: _servers, skills, ...context }: Record<string, unknown>) {
  const described = Array.isArray(skills) ? skills.filter(isObject) : [];
  return { ...context, skills: described.map(({ mcpServers: _own, ...skill }) => skill) };
}

/** MCP servers are not started: the results of their tools are in the recording. */
function omitServers({ agent, ...rest }: AgentDocument): AgentDocument {
  if (!agent) return rest;
  const { mcp_config: _servers, ...own } = agent as typeof agent & { mcp_config?: unknown };
  return { ...rest, agent: own as typeof agent };
}
