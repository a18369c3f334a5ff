import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../../common/schema.ts";
import { observation } from "./observation.ts";

/** Tools that edit and search files (events.md section 3). */

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

export const PlanningFileEditorAction = Type.Object({
  ...FileEditorAction.properties,
  kind: Type.Literal("PlanningFileEditorAction"),
});

export const PlanningFileEditorObservation = Type.Object({
  ...FileEditorObservation.properties,
  kind: Type.Literal("PlanningFileEditorObservation"),
});

export const ApplyPatchAction = Type.Object({ kind: Type.Literal("ApplyPatchAction"), patch: Type.String() });

/** The effect of a patch on one file. */
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

export type FileEditorAction = Static<typeof FileEditorAction>;
export type FileEditorObservation = Static<typeof FileEditorObservation>;
export type PlanningFileEditorAction = Static<typeof PlanningFileEditorAction>;
export type PlanningFileEditorObservation = Static<typeof PlanningFileEditorObservation>;
export type ApplyPatchAction = Static<typeof ApplyPatchAction>;
export type PatchedFile = Static<typeof PatchedFile>;
export type ApplyPatchObservation = Static<typeof ApplyPatchObservation>;
export type GlobAction = Static<typeof GlobAction>;
export type GlobObservation = Static<typeof GlobObservation>;
export type GrepAction = Static<typeof GrepAction>;
export type GrepObservation = Static<typeof GrepObservation>;
