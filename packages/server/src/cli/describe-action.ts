import type { Action } from "@sandpiper/wire";

/** Describes an action for a reader who follows the run; untrusted text. */
export function describeAction(action: Action): string {
  switch (action.kind) {
    case "TerminalAction":
      if (action.reset) return `(new shell)${action.command ? `\n$ ${action.command}` : ""}`;
      return action.is_input
        ? `(input) ${action.command}`
        : action.command
          ? `$ ${action.command}`
          : "(waits for output)";
    case "GlobAction":
    case "GrepAction":
      return action.path ? `${action.pattern} in ${action.path}` : action.pattern;
    case "FileEditorAction":
    case "PlanningFileEditorAction":
      return [
        `${action.command} ${action.path}`,
        ...changes(action.old_str, "-"),
        ...changes(action.new_str ?? action.file_text, "+"),
      ].join("\n");
    case "WriteFileAction":
      return [`write ${action.file_path}`, ...changes(action.content, "+")].join("\n");
    case "EditAction":
      return [
        `edit ${action.file_path}`,
        ...changes(action.old_string, "-"),
        ...changes(action.new_string, "+"),
      ].join("\n");
    case "TaskTrackerAction":
      return [
        action.command,
        ...action.task_list.map(({ status, title }) => `${taskMarks[status]} ${title}`),
      ].join("\n");
    case "ThinkAction":
      return action.thought;
    case "FinishAction":
      return action.message;
    case "TaskAction":
      return `${action.subagent_type}: ${action.prompt}`;
    case "MCPToolAction":
      return JSON.stringify(action.data);
    case "ApplyPatchAction":
      return action.patch;
    default: {
      const { kind: _kind, ...parameters } = action;
      return Object.entries(parameters)
        .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
        .join("\n");
    }
  }
}

const taskMarks = { todo: "[ ]", in_progress: "[~]", done: "[x]" } as const;

function changes(text: string | null | undefined, sign: string): string[] {
  return text
    ? text
        .replace(/\n$/, "")
        .split("\n")
        .map((line) => `${sign} ${line}`)
    : [];
}
