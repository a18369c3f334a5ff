import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";
import { Content } from "./content.ts";

/** Actions and observations of the other tools (events.md section 3). */

const observation = { content: Type.Array(Content), is_error: Type.Boolean({ default: false }) };

export const ApplyPatchAction = Type.Object({ kind: Type.Literal("ApplyPatchAction"), patch: Type.String() });

/** What a patch did to one file. */
export const PatchedFile = Type.Object({
  type: StringEnum(["add", "delete", "update"]),
  old_content: Type.Optional(Nullable(Type.String())),
  new_content: Type.Optional(Nullable(Type.String())),
  move_path: Type.Optional(Nullable(Type.String())),
});

export const ApplyPatchObservation = Type.Object({
  kind: Type.Literal("ApplyPatchObservation"),
  ...observation,
  message: Type.String({ default: "" }),
  fuzz: Type.Integer({ default: 0 }),
  commit: Type.Optional(Nullable(Type.Object({ changes: Type.Record(Type.String(), PatchedFile) }))),
});

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

const index = Type.Integer({ minimum: 0 });
const newTab = { new_tab: Type.Boolean({ default: false }) };

export const BrowserNavigateAction = Type.Object({
  kind: Type.Literal("BrowserNavigateAction"),
  url: Type.String(),
  ...newTab,
});
export const BrowserClickAction = Type.Object({ kind: Type.Literal("BrowserClickAction"), index, ...newTab });
export const BrowserTypeAction = Type.Object({
  kind: Type.Literal("BrowserTypeAction"),
  index,
  text: Type.String(),
});
export const BrowserGetStateAction = Type.Object({
  kind: Type.Literal("BrowserGetStateAction"),
  include_screenshot: Type.Boolean({ default: false }),
});
export const BrowserGetContentAction = Type.Object({
  kind: Type.Literal("BrowserGetContentAction"),
  extract_links: Type.Boolean({ default: false }),
  start_from_char: Type.Integer({ minimum: 0, default: 0 }),
});
export const BrowserScrollAction = Type.Object({
  kind: Type.Literal("BrowserScrollAction"),
  direction: StringEnum(["up", "down"], { default: "down" }),
});
export const BrowserGoBackAction = Type.Object({ kind: Type.Literal("BrowserGoBackAction") });
export const BrowserListTabsAction = Type.Object({ kind: Type.Literal("BrowserListTabsAction") });
export const BrowserSwitchTabAction = Type.Object({
  kind: Type.Literal("BrowserSwitchTabAction"),
  tab_id: Type.String(),
});
export const BrowserCloseTabAction = Type.Object({
  kind: Type.Literal("BrowserCloseTabAction"),
  tab_id: Type.String(),
});
export const BrowserGetStorageAction = Type.Object({ kind: Type.Literal("BrowserGetStorageAction") });
export const BrowserSetStorageAction = Type.Object({
  kind: Type.Literal("BrowserSetStorageAction"),
  storage_state: Type.Record(Type.String(), Type.Unknown()),
});

export const BrowserObservation = Type.Object({
  kind: Type.Literal("BrowserObservation"),
  ...observation,
  screenshot_data: Type.Optional(
    Nullable(Type.String({ description: "base64 of an image, without a data URL's head" })),
  ),
  full_output_save_dir: Type.Optional(Nullable(Type.String())),
});

export const moreActions = [
  ApplyPatchAction,
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
] as const;

export const moreObservations = [
  ApplyPatchObservation,
  TaskObservation,
  InvokeSkillObservation,
  SwitchLLMObservation,
  MCPToolObservation,
  BrowserObservation,
] as const;

export type ApplyPatchAction = Static<typeof ApplyPatchAction>;
export type PatchedFile = Static<typeof PatchedFile>;
export type ApplyPatchObservation = Static<typeof ApplyPatchObservation>;
export type TaskAction = Static<typeof TaskAction>;
export type TaskObservation = Static<typeof TaskObservation>;
export type InvokeSkillAction = Static<typeof InvokeSkillAction>;
export type InvokeSkillObservation = Static<typeof InvokeSkillObservation>;
export type SwitchLLMAction = Static<typeof SwitchLLMAction>;
export type SwitchLLMObservation = Static<typeof SwitchLLMObservation>;
export type MCPToolAction = Static<typeof MCPToolAction>;
export type MCPToolObservation = Static<typeof MCPToolObservation>;
export type BrowserNavigateAction = Static<typeof BrowserNavigateAction>;
export type BrowserClickAction = Static<typeof BrowserClickAction>;
export type BrowserTypeAction = Static<typeof BrowserTypeAction>;
export type BrowserGetStateAction = Static<typeof BrowserGetStateAction>;
export type BrowserGetContentAction = Static<typeof BrowserGetContentAction>;
export type BrowserScrollAction = Static<typeof BrowserScrollAction>;
export type BrowserGoBackAction = Static<typeof BrowserGoBackAction>;
export type BrowserListTabsAction = Static<typeof BrowserListTabsAction>;
export type BrowserSwitchTabAction = Static<typeof BrowserSwitchTabAction>;
export type BrowserCloseTabAction = Static<typeof BrowserCloseTabAction>;
export type BrowserGetStorageAction = Static<typeof BrowserGetStorageAction>;
export type BrowserSetStorageAction = Static<typeof BrowserSetStorageAction>;
export type BrowserObservation = Static<typeof BrowserObservation>;
