import { posix } from "node:path";
import type { FileEditorAction, FileEditorObservation } from "@sandpiper/wire";
import { fileEditorCommands } from "@sandpiper/wire";
import { Type } from "typebox";
import { judgeEdit } from "../risk/edit-rules.ts";
import { toolDefinition } from "./definition.ts";
import { editFile } from "./file-editor/file-editor.ts";
import type { Tool } from "./tool.ts";

const description = `Views, creates and edits text files in the sandbox. Paths are absolute.

- view: shows a file with line numbers, an image, or a directory two levels deep. view_range limits it to some lines.
- create: makes a new file; it does not overwrite an existing one.
- str_replace: replaces old_str by new_str. old_str must stand in the file exactly once, whitespace and indentation included; give enough lines around the change to make it unique.
- insert: puts new_str after line insert_line; 0 is in front of the first line.
- undo_edit: takes back the last edit of this tool to the file.
View a file before you edit it. Long output is cut. Encoding and line endings of a file stay as they are.`;

/** The file editor (agent-behaviour.md section 14). */
export const fileEditorTool: Tool<FileEditorAction, FileEditorObservation> = {
  name: "file_editor",
  description,
  definition: toolDefinition("file_editor", "FileEditor", description, "destructive"),
  parameters: Type.Object({
    command: Type.Unsafe<FileEditorAction["command"]>({
      type: "string",
      enum: [...fileEditorCommands],
      description: "What to do.",
    }),
    path: Type.String({
      description: "Absolute path of the file or directory, for example /workspace/project/main.py.",
    }),
    file_text: Type.Optional(Type.String({ description: "create: the content of the new file." })),
    old_str: Type.Optional(Type.String({ description: "str_replace: the text to replace." })),
    new_str: Type.Optional(
      Type.String({ description: "str_replace: the new text; may be empty. insert: the lines to insert." }),
    ),
    insert_line: Type.Optional(
      Type.Integer({ minimum: 0, description: "insert: the line after which new_str goes." }),
    ),
    view_range: Type.Optional(
      Type.Array(Type.Integer(), {
        description:
          "view: first and last line, counted from 1, for example [11, 20]; [11, -1] shows everything from line 11.",
      }),
    ),
  }),
  actionKind: "FileEditorAction",
  aliases: ["str_replace", "str_replace_editor"],
  risk: (action) => ({ findings: judgeEdit(action), usual: action.command === "view" ? "LOW" : "MEDIUM" }),
  idempotent: false,
  readOnly: false,
  resources: ({ path }) => [`file:${posix.normalize(path)}`],
  completeArguments(received) {
    const has = (name: string) => received[name] !== undefined && received[name] !== null;
    if (has("command")) return received;
    const command = has("old_str")
      ? "str_replace"
      : has("insert_line")
        ? "insert"
        : has("file_text")
          ? "create"
          : undefined;
    return command ? { ...received, command } : received;
  },
  run: editFile,
};
