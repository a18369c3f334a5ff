import { fileEditorTool } from "./file-editor.ts";
import { finishTool } from "./finish.ts";
import { globTool } from "./glob.ts";
import { grepTool } from "./grep.ts";
import { planningFileEditorTool } from "./planning-file-editor.ts";
import { taskTrackerTool } from "./task-tracker.ts";
import { terminalTool } from "./terminal.ts";
import { thinkTool } from "./think.ts";
import type { Tool } from "./tool.ts";

/** The tools of an agent that does the work, in the order in which the model reads them. */
export const coreTools = [
  terminalTool,
  fileEditorTool,
  taskTrackerTool,
  thinkTool,
  finishTool,
] as unknown as readonly Tool[];

/** Those of a planning agent: it reads, and writes its plan. */
export const planTools = [
  globTool,
  grepTool,
  planningFileEditorTool,
  thinkTool,
  finishTool,
] as unknown as readonly Tool[];
