import type { Tool } from "../tool.ts";
import { fileEditorTool } from "./file-editor.ts";
import { finishTool } from "./finish.ts";
import { taskTrackerTool } from "./task-tracker.ts";
import { terminalTool } from "./terminal.ts";
import { thinkTool } from "./think.ts";

/** The tools that every conversation has, in the order in which the model reads them. */
export const coreTools = [terminalTool, fileEditorTool, taskTrackerTool, thinkTool, finishTool] as unknown as readonly Tool[];
