import { type Static, Type } from "typebox";
import { StringEnum } from "../../common/schema.ts";
import { observation } from "./observation.ts";

/** Tools that structure the agent's work (events.md section 3). */

export const TaskItem = Type.Object({
  title: Type.String(),
  notes: Type.String({ default: "" }),
  status: StringEnum(["todo", "in_progress", "done"], { default: "todo" }),
});

export const TaskTrackerAction = Type.Object({
  kind: Type.Literal("TaskTrackerAction"),
  command: StringEnum(["view", "plan"], { default: "view" }),
  task_list: Type.Array(TaskItem, { default: [] }),
});

export const TaskTrackerObservation = Type.Object({
  kind: Type.Literal("TaskTrackerObservation"),
  ...observation,
  command: StringEnum(["view", "plan"]),
  task_list: Type.Array(TaskItem, { default: [] }),
});

export const ThinkAction = Type.Object({ kind: Type.Literal("ThinkAction"), thought: Type.String() });

export const ThinkObservation = Type.Object({ kind: Type.Literal("ThinkObservation"), ...observation });

export const FinishAction = Type.Object({ kind: Type.Literal("FinishAction"), message: Type.String() });

export const FinishObservation = Type.Object({ kind: Type.Literal("FinishObservation"), ...observation });

export type TaskItem = Static<typeof TaskItem>;
export type TaskTrackerAction = Static<typeof TaskTrackerAction>;
export type TaskTrackerObservation = Static<typeof TaskTrackerObservation>;
export type ThinkAction = Static<typeof ThinkAction>;
export type FinishAction = Static<typeof FinishAction>;
