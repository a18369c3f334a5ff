import { type Static, Type } from "typebox";
import {
  BrowserClickAction,
  BrowserCloseTabAction,
  BrowserGetContentAction,
  BrowserGetStateAction,
  BrowserGetStorageAction,
  BrowserGoBackAction,
  BrowserListTabsAction,
  BrowserNavigateAction,
  BrowserObservation,
  BrowserScrollAction,
  BrowserSetStorageAction,
  BrowserSwitchTabAction,
  BrowserTypeAction,
} from "./tools/browser.ts";
import {
  InvokeSkillAction,
  InvokeSkillObservation,
  MCPToolAction,
  MCPToolObservation,
  SwitchLLMAction,
  SwitchLLMObservation,
  TaskAction,
  TaskObservation,
} from "./tools/extensions.ts";
import {
  ApplyPatchAction,
  ApplyPatchObservation,
  FileEditorAction,
  FileEditorObservation,
  GlobAction,
  GlobObservation,
  GrepAction,
  GrepObservation,
  PlanningFileEditorAction,
  PlanningFileEditorObservation,
} from "./tools/files.ts";
import {
  EditAction,
  EditObservation,
  ListDirectoryAction,
  ListDirectoryObservation,
  ReadFileAction,
  ReadFileObservation,
  WriteFileAction,
  WriteFileObservation,
} from "./tools/plain-files.ts";
import {
  FinishAction,
  FinishObservation,
  TaskTrackerAction,
  TaskTrackerObservation,
  ThinkAction,
  ThinkObservation,
} from "./tools/planning.ts";
import { TerminalAction, TerminalObservation } from "./tools/terminal.ts";

/** The unions of all tools' actions and observations, field by field as in events.md section 3. */

export const Action = Type.Union([
  TerminalAction,
  FileEditorAction,
  TaskTrackerAction,
  ThinkAction,
  FinishAction,
  GlobAction,
  GrepAction,
  PlanningFileEditorAction,
  ApplyPatchAction,
  ReadFileAction,
  WriteFileAction,
  EditAction,
  ListDirectoryAction,
  TaskAction,
  InvokeSkillAction,
  SwitchLLMAction,
  MCPToolAction,
  BrowserNavigateAction,
  BrowserClickAction,
  BrowserTypeAction,
  BrowserGetStateAction,
  BrowserGetContentAction,
  BrowserScrollAction,
  BrowserGoBackAction,
  BrowserListTabsAction,
  BrowserSwitchTabAction,
  BrowserCloseTabAction,
  BrowserGetStorageAction,
  BrowserSetStorageAction,
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
  ApplyPatchObservation,
  ReadFileObservation,
  WriteFileObservation,
  EditObservation,
  ListDirectoryObservation,
  TaskObservation,
  InvokeSkillObservation,
  SwitchLLMObservation,
  MCPToolObservation,
  BrowserObservation,
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

export type Action = Static<typeof Action>;
export type Observation = Static<typeof Observation>;
export type ToolDefinition = Static<typeof ToolDefinition>;
