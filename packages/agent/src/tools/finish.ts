import type { FinishAction, FinishObservation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { type Static, Type } from "typebox";
import { toolDefinition } from "./definition.ts";
import type { Tool } from "./tool.ts";

const description =
  "Ends the work on the task and hands the result to the user. Call it when the task is done, or when you cannot go on; say in the message " +
  "what was done, how it was checked, and what is still open.";

/** Ends the turn; the observation repeats the message (events.md section 4). */
export const finishTool: Tool<FinishAction, Static<typeof FinishObservation>> = {
  name: "finish",
  description,
  definition: toolDefinition("finish", "Finish", description, "readOnly", "idempotent"),
  parameters: Type.Object({ message: Type.String({ description: "The final message to the user." }) }),
  actionKind: "FinishAction",
  role: "finish",
  idempotent: true,
  readOnly: true,
  async run(action) {
    return { kind: "FinishObservation", content: [textContent(action.message)], is_error: false };
  },
};
