import { posix } from "node:path";
import type { PlanningFileEditorAction, PlanningFileEditorObservation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { judgeEdit } from "../risk/edit-rules.ts";
import { toolDefinition } from "./definition.ts";
import { editFile } from "./file-editor/file-editor.ts";
import { fileEditorTool } from "./file-editor.ts";
import type { Tool } from "./tool.ts";

const description = `Views files and directories, and writes the plan. Only the plan's own file can be created or edited; its path stands in the prompt.

${fileEditorTool.description.slice(fileEditorTool.description.indexOf("- view"))}`;

/** The file editor of planning agents, which only writes the plan (events.md section 3). */
export const planningFileEditorTool: Tool<PlanningFileEditorAction, PlanningFileEditorObservation> = {
  name: "planning_file_editor",
  description,
  definition: toolDefinition("planning_file_editor", "PlanningFileEditor", description),
  parameters: fileEditorTool.parameters,
  actionKind: "PlanningFileEditorAction",
  risk: (action) => ({ findings: judgeEdit(action), usual: "MEDIUM" }),
  idempotent: false,
  readOnly: false,
  resources: ({ path }) => [`file:${posix.normalize(path)}`],
  async run(action, context) {
    const { command, path } = action;
    const common = { kind: "PlanningFileEditorObservation", command, path, prev_exist: true } as const;
    if (command !== "view" && posix.normalize(path) !== context.planPath) {
      const text = `Only the plan can be written: ${context.planPath}. Nothing was changed.`;
      return { ...common, content: [textContent(text)], is_error: true };
    }
    const { content, is_error, prev_exist } = await editFile(
      { ...action, kind: "FileEditorAction" },
      context,
    );
    return { ...common, content, is_error, prev_exist };
  },
};
