import { type Static, Type } from "typebox";
import { Nullable } from "../../common/schema.ts";
import { observation } from "./observation.ts";

/** Sub-agents, skills, model switches and MCP tools (events.md section 3). */

export const TaskAction = Type.Object({
  kind: Type.Literal("TaskAction"),
  description: Type.Optional(Nullable(Type.String())),
  prompt: Type.String(),
  subagent_type: Type.String({ default: "general-purpose" }),
  resume: Type.Optional(Nullable(Type.String())),
});

export const TaskObservation = Type.Object({
  kind: Type.Literal("TaskObservation"),
  ...observation,
  task_id: Type.String(),
  subagent: Type.String(),
  status: Type.String(),
});

export const InvokeSkillAction = Type.Object({
  kind: Type.Literal("InvokeSkillAction"),
  name: Type.String(),
});

export const InvokeSkillObservation = Type.Object({
  kind: Type.Literal("InvokeSkillObservation"),
  ...observation,
  skill_name: Type.String(),
});

export const SwitchLLMAction = Type.Object({
  kind: Type.Literal("SwitchLLMAction"),
  profile_name: Type.String(),
  reason: Type.String(),
});

export const SwitchLLMObservation = Type.Object({
  kind: Type.Literal("SwitchLLMObservation"),
  ...observation,
  profile_name: Type.String(),
  reason: Type.Optional(Nullable(Type.String())),
  active_model: Type.Optional(Nullable(Type.String())),
});

export const MCPToolAction = Type.Object({
  kind: Type.Literal("MCPToolAction"),
  data: Type.Record(Type.String(), Type.Unknown()),
});

export const MCPToolObservation = Type.Object({
  kind: Type.Literal("MCPToolObservation"),
  ...observation,
  tool_name: Type.String(),
});

export type TaskAction = Static<typeof TaskAction>;
export type TaskObservation = Static<typeof TaskObservation>;
export type InvokeSkillAction = Static<typeof InvokeSkillAction>;
export type InvokeSkillObservation = Static<typeof InvokeSkillObservation>;
export type SwitchLLMAction = Static<typeof SwitchLLMAction>;
export type SwitchLLMObservation = Static<typeof SwitchLLMObservation>;
export type MCPToolAction = Static<typeof MCPToolAction>;
export type MCPToolObservation = Static<typeof MCPToolObservation>;
