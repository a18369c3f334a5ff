import type { Action } from "@sandpiper/wire";
import { judgeEdit, judgePatch } from "./edit-rules.ts";
import { findings } from "./findings.ts";
import { judgeArguments } from "./pattern.ts";
import { judgeScript } from "./shell-rules.ts";

/** What the rules find in an action, in words for the person who approves it. */
export function describeFindings(action: Action): string[] {
  return judgeAction(action).map((finding) => findings[finding]);
}

function judgeAction(action: Action) {
  switch (action.kind) {
    case "TerminalAction":
      return judgeScript(action.command).findings;
    case "FileEditorAction":
    case "PlanningFileEditorAction":
      return judgeEdit(action);
    case "ReadFileAction":
      return judgeEdit({ command: "view", path: action.file_path });
    case "WriteFileAction":
      return judgeEdit({ command: "create", path: action.file_path, file_text: action.content });
    case "EditAction":
      return judgeEdit({ command: "str_replace", path: action.file_path, new_str: action.new_string });
    case "ApplyPatchAction":
      return judgePatch(action.patch);
    case "MCPToolAction":
      return judgeArguments(action.data);
    default:
      return [];
  }
}
