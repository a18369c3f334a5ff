import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";
import { Content } from "./content.ts";
import { moreActions, moreObservations } from "./tools-more.ts";

/** Actions and observations of the core tools, field by field as in events.md section 3. */

const observation = { content: Type.Array(Content), is_error: Type.Boolean({ default: false }) };

export const TerminalAction = Type.Object({
  kind: Type.Literal("TerminalAction"),
  command: Type.String(),
  is_input: Type.Boolean({ default: false }),
  timeout: Type.Optional(Nullable(Type.Number({ minimum: 0 }))),
  reset: Type.Boolean({ default: false }),
});

export const CmdOutputMetadata = Type.Object({
  exit_code: Type.Integer({ default: -1 }),
  pid: Type.Integer({ default: -1 }),
  username: Type.Optional(Nullable(Type.String())),
  hostname: Type.Optional(Nullable(Type.String())),
  working_dir: Type.Optional(Nullable(Type.String())),
  py_interpreter_path: Type.Optional(Nullable(Type.String())),
  prefix: Type.String({ default: "" }),
  suffix: Type.String({ default: "" }),
});

export const TerminalObservation = Type.Object({
  kind: Type.Literal("TerminalObservation"),
  ...observation,
  command: Type.Optional(Nullable(Type.String())),
  exit_code: Type.Optional(Nullable(Type.Integer())),
  timeout: Type.Boolean({ default: false }),
  metadata: CmdOutputMetadata,
  full_output_save_dir: Type.Optional(Nullable(Type.String())),
});

export const fileEditorCommands = ["view", "create", "str_replace", "insert", "undo_edit"] as const;

export const FileEditorAction = Type.Object({
  kind: Type.Literal("FileEditorAction"),
  command: StringEnum(fileEditorCommands),
  path: Type.String(),
  file_text: Type.Optional(Nullable(Type.String())),
  old_str: Type.Optional(Nullable(Type.String())),
  new_str: Type.Optional(Nullable(Type.String())),
  insert_line: Type.Optional(Nullable(Type.Integer({ minimum: 0 }))),
  view_range: Type.Optional(Nullable(Type.Array(Type.Integer()))),
});

export const FileEditorObservation = Type.Object({
  kind: Type.Literal("FileEditorObservation"),
  ...observation,
  command: StringEnum(fileEditorCommands),
  path: Type.Optional(Nullable(Type.String())),
  prev_exist: Type.Boolean({ default: true }),
  old_content: Type.Optional(Nullable(Type.String())),
  new_content: Type.Optional(Nullable(Type.String())),
});

export const TaskItem = Type.Object({
  title: Type.String(),
  notes: Type.String({ default: "" }),
  status: StringEnum(["todo", "in_progress", "done"], { default: "todo" }),
});

export const TaskTrackerAction = Type.Object({
  kind: Type.Literal("TaskTrackerAction"),
  command: StringEnum(["view", "plan"], { default: "view" }),
  task_list: Type.Array(TaskItem, { default: [] }),
});

export const TaskTrackerObservation = Type.Object({
  kind: Type.Literal("TaskTrackerObservation"),
  ...observation,
  command: StringEnum(["view", "plan"]),
  task_list: Type.Array(TaskItem, { default: [] }),
});

export const ThinkAction = Type.Object({ kind: Type.Literal("ThinkAction"), thought: Type.String() });
export const ThinkObservation = Type.Object({ kind: Type.Literal("ThinkObservation"), ...observation });
export const FinishAction = Type.Object({ kind: Type.Literal("FinishAction"), message: Type.String() });
export const FinishObservation = Type.Object({ kind: Type.Literal("FinishObservation"), ...observation });

const searchPath = { path: Type.Optional(Nullable(Type.String())) };

export const GlobAction = Type.Object({
  kind: Type.Literal("GlobAction"),
  pattern: Type.String(),
  ...searchPath,
});
export const GlobObservation = Type.Object({
  kind: Type.Literal("GlobObservation"),
  ...observation,
  files: Type.Array(Type.String()),
  pattern: Type.String(),
  search_path: Type.String(),
  truncated: Type.Boolean({ default: false }),
});

export const GrepAction = Type.Object({
  kind: Type.Literal("GrepAction"),
  pattern: Type.String(),
  ...searchPath,
  include: Type.Optional(Nullable(Type.String())),
});
export const GrepObservation = Type.Object({
  kind: Type.Literal("GrepObservation"),
  ...observation,
  matches: Type.Array(Type.String()),
  pattern: Type.String(),
  search_path: Type.String(),
  include_pattern: Type.Optional(Nullable(Type.String())),
  truncated: Type.Boolean({ default: false }),
});

export const PlanningFileEditorAction = Type.Object({
  ...FileEditorAction.properties,
  kind: Type.Literal("PlanningFileEditorAction"),
});
export const PlanningFileEditorObservation = Type.Object({
  ...FileEditorObservation.properties,
  kind: Type.Literal("PlanningFileEditorObservation"),
});

export const Action = Type.Union([
  TerminalAction,
  FileEditorAction,
  TaskTrackerAction,
  ThinkAction,
  FinishAction,
  GlobAction,
  GrepAction,
  PlanningFileEditorAction,
  ...moreActions,
]);
export const Observation = Type.Union([
  TerminalObservation,
  FileEditorObservation,
  TaskTrackerObservation,
  ThinkObservation,
  FinishObservation,
  GlobObservation,
  GrepObservation,
  PlanningFileEditorObservation,
  ...moreObservations,
]);

/**
 * An entry of SystemPromptEvent.tools. Clients resolve the kinds in their own process: never invent
 * one (events.md section 2).
 */
export const ToolDefinition = Type.Object({
  kind: Type.String(),
  title: Type.String(),
  description: Type.String(),
  action_type: Type.String(),
  observation_type: Type.String(),
  annotations: Type.Object({
    title: Type.String(),
    readOnlyHint: Type.Boolean(),
    destructiveHint: Type.Boolean(),
    idempotentHint: Type.Boolean(),
    openWorldHint: Type.Boolean(),
  }),
  client_tool_name: Type.Optional(Type.String({ description: "of a tool that the client runs" })),
  input_schema: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  mcp_tool: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description: "an MCP server's own description of its tool",
    }),
  ),
});

export type TerminalAction = Static<typeof TerminalAction>;
export type TerminalObservation = Static<typeof TerminalObservation>;
export type CmdOutputMetadata = Static<typeof CmdOutputMetadata>;
export type FileEditorAction = Static<typeof FileEditorAction>;
export type FileEditorObservation = Static<typeof FileEditorObservation>;
export type TaskItem = Static<typeof TaskItem>;
export type TaskTrackerAction = Static<typeof TaskTrackerAction>;
export type TaskTrackerObservation = Static<typeof TaskTrackerObservation>;
export type ThinkAction = Static<typeof ThinkAction>;
export type FinishAction = Static<typeof FinishAction>;
export type GlobAction = Static<typeof GlobAction>;
export type GlobObservation = Static<typeof GlobObservation>;
export type GrepAction = Static<typeof GrepAction>;
export type GrepObservation = Static<typeof GrepObservation>;
export type PlanningFileEditorAction = Static<typeof PlanningFileEditorAction>;
export type PlanningFileEditorObservation = Static<typeof PlanningFileEditorObservation>;
export type Action = Static<typeof Action>;
export type Observation = Static<typeof Observation>;
export type ToolDefinition = Static<typeof ToolDefinition>;
