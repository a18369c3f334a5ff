import type { TaskItem, TaskTrackerAction, TaskTrackerObservation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { Type } from "typebox";
import { toolDefinition } from "./definition.ts";
import type { Tool } from "./tool.ts";

const description = `Keeps the list of tasks of a piece of work that has several steps.

- "plan" replaces the whole list; give every task, also those that are done.
- "view" shows the list.
Keep one task in_progress at a time and mark it done as soon as it is. Do without a list for work of one or two steps.`;

const icons: Record<TaskItem["status"], string> = { todo: "[ ]", in_progress: "[>]", done: "[x]" };

/** The agent's task list, in memory under the tool's name (agent-behaviour.md section 14). */
export const taskTrackerTool: Tool<TaskTrackerAction, TaskTrackerObservation> = {
  name: "task_tracker",
  description,
  definition: toolDefinition("task_tracker", "TaskTracker", description, "readOnly", "idempotent"),
  parameters: Type.Object({
    command: Type.Optional(
      Type.Unsafe<"view" | "plan">({ type: "string", enum: ["view", "plan"], default: "view" }),
    ),
    task_list: Type.Optional(
      Type.Array(
        Type.Object({
          title: Type.String({ description: "What is to be done, in a few words." }),
          notes: Type.Optional(Type.String({ default: "", description: "Details." })),
          status: Type.Optional(
            Type.Unsafe<TaskItem["status"]>({
              type: "string",
              enum: ["todo", "in_progress", "done"],
              default: "todo",
            }),
          ),
        }),
        { default: [], description: "The whole list, for plan." },
      ),
    ),
  }),
  actionKind: "TaskTrackerAction",
  idempotent: true,
  readOnly: true,
  restore: (memory, { taskList }) => memory.set("task_tracker", taskList),

  async run(action, context) {
    const { command } = action;
    if (command === "plan") context.memory.set("task_tracker", action.task_list);
    const tasks = (context.memory.get("task_tracker") as TaskItem[] | undefined) ?? [];
    return {
      kind: "TaskTrackerObservation",
      content: [textContent(command === "plan" ? `Stored ${count(tasks)}.` : listing(tasks))],
      is_error: false,
      command,
      task_list: tasks,
    };
  },
};

function listing(tasks: TaskItem[]): string {
  if (tasks.length === 0) return "There is no task list yet; make one with plan.";
  const lines = tasks.map(
    ({ title, notes, status }, index) =>
      `${index + 1}. ${icons[status]} ${title}${notes ? `\n   ${notes}` : ""}`,
  );
  return `${count(tasks)}:\n${lines.join("\n")}`;
}

function count(tasks: TaskItem[]): string {
  return tasks.length === 1 ? "1 task" : `${tasks.length} tasks`;
}
