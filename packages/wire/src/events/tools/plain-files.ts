import { type Static, Type } from "typebox";
import { Nullable } from "../../common/schema.ts";
import { observation } from "./observation.ts";

/** The file tools of the SDK's gemini preset (events.md section 3). */

export const ReadFileAction = Type.Object({
  kind: Type.Literal("ReadFileAction"),
  file_path: Type.String(),
  offset: Type.Optional(Nullable(Type.Integer({ minimum: 0 }))),
  limit: Type.Optional(Nullable(Type.Integer({ minimum: 1 }))),
});

export const ReadFileObservation = Type.Object({
  kind: Type.Literal("ReadFileObservation"),
  ...observation,
  file_path: Type.String(),
  file_content: Type.String({ default: "" }),
  is_truncated: Type.Boolean({ default: false }),
  /** First and last line, from 1, of a text that was cut. */
  lines_shown: Type.Optional(Nullable(Type.Array(Type.Integer(), { minItems: 2, maxItems: 2 }))),
  total_lines: Type.Optional(Nullable(Type.Integer())),
});

export const WriteFileAction = Type.Object({
  kind: Type.Literal("WriteFileAction"),
  file_path: Type.String(),
  content: Type.String(),
});

const changedFile = {
  file_path: Type.Optional(Nullable(Type.String())),
  is_new_file: Type.Boolean({ default: false }),
  old_content: Type.Optional(Nullable(Type.String())),
  new_content: Type.Optional(Nullable(Type.String())),
};

export const WriteFileObservation = Type.Object({
  kind: Type.Literal("WriteFileObservation"),
  ...observation,
  ...changedFile,
});

export const EditAction = Type.Object({
  kind: Type.Literal("EditAction"),
  file_path: Type.String(),
  old_string: Type.String(),
  new_string: Type.String(),
  expected_replacements: Type.Integer({ minimum: 0, default: 1 }),
});

export const EditObservation = Type.Object({
  kind: Type.Literal("EditObservation"),
  ...observation,
  ...changedFile,
  replacements_made: Type.Integer({ default: 0 }),
});

export const ListDirectoryAction = Type.Object({
  kind: Type.Literal("ListDirectoryAction"),
  dir_path: Type.String({ default: "." }),
  recursive: Type.Boolean({ default: false }),
});

export const ListedFile = Type.Object({
  name: Type.String(),
  path: Type.String(),
  is_directory: Type.Boolean(),
  size: Type.Integer({ description: "bytes; 0 for a directory" }),
  modified_time: Type.String(),
});

export const ListDirectoryObservation = Type.Object({
  kind: Type.Literal("ListDirectoryObservation"),
  ...observation,
  dir_path: Type.Optional(Nullable(Type.String())),
  entries: Type.Array(ListedFile),
  total_count: Type.Integer({ default: 0 }),
  is_truncated: Type.Boolean({ default: false }),
});

export type ReadFileAction = Static<typeof ReadFileAction>;
export type ReadFileObservation = Static<typeof ReadFileObservation>;
export type WriteFileAction = Static<typeof WriteFileAction>;
export type WriteFileObservation = Static<typeof WriteFileObservation>;
export type EditAction = Static<typeof EditAction>;
export type EditObservation = Static<typeof EditObservation>;
export type ListDirectoryAction = Static<typeof ListDirectoryAction>;
export type ListedFile = Static<typeof ListedFile>;
export type ListDirectoryObservation = Static<typeof ListDirectoryObservation>;
