import { type TaskAction, type TaskObservation, textContent } from "@sandpiper/wire";
import { Type } from "typebox";
import { lowRisk } from "../risk/findings.ts";
import type { AgentDefinition } from "../skills/agent-definitions.ts";
import { toolDefinition } from "./definition.ts";
import type { Tool, ToolTraits } from "./tool.ts";

/** Runs a task in a sub-agent; a repeated `actionId` resumes its sub-agent. */
export type RunTask = (action: TaskAction, actionId: string, signal: AbortSignal) => Promise<TaskObservation>;

export type ListedAgent = Pick<AgentDefinition, "name" | "description">;

/** Characters of a listed description. */
const maxDescription = 500;

export const taskTraits = {
  name: "task",
  actionKind: "TaskAction",
  outside: true,
  risk: () => lowRisk,
  // A later call resumes the sub-agent by its id.
  render: {
    kind: "TaskObservation",
    content: ({ content, task_id: id }) =>
      id ? [...content, textContent(`[task_id: ${id}]`)] : [...content],
  },
} satisfies ToolTraits<TaskAction, TaskObservation>;

/** Delegates a task and waits for the answer (agent-behaviour.md section 12). */
export function taskTool(
  definitions: readonly ListedAgent[],
  run: RunTask,
): Tool<TaskAction, TaskObservation> {
  const description = `Hands a task to a sub-agent, which works in the same folder with a history of its own, and answers with its last words.

- Use it for work that would fill your history (exploring, long output) or that can be done apart from yours.
- The sub-agent knows nothing of this conversation: put all that it needs into the prompt, and say what it should answer.
- Several calls in one answer run side by side where that is allowed. Give them parts that do not touch the same files.
- resume: the task_id of an earlier answer, to go on with that sub-agent.

Kinds (subagent_type):
${definitions.map(({ name, description: about }) => `- ${name}: ${about.replaceAll(/\s+/g, " ").slice(0, maxDescription)}`).join("\n")}`;
  return {
    ...taskTraits,
    description,
    definition: toolDefinition("task", "Task", description, "destructive", "openWorld"),
    parameters: Type.Object({
      description: Type.Optional(Type.String({ description: "The task in three to five words." })),
      prompt: Type.String({ description: "The task, with everything that the sub-agent has to know." }),
      subagent_type: Type.Optional(
        Type.String({
          default: "general-purpose",
          description: "Which kind of sub-agent; default: general-purpose.",
        }),
      ),
      resume: Type.Optional(Type.String({ description: "task_id of the sub-agent that is to go on." })),
    }),
    // A second run finds the surviving sub-agent.
    idempotent: true,
    readOnly: false,
    resources: ({ resume }) => (resume ? [`task:${resume}`] : []),
    run: (action, { actionId, signal }) => run(action, actionId, signal),
  };
}
