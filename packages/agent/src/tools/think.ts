import type { ThinkAction, ThinkObservation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { type Static, Type } from "typebox";
import { toolDefinition } from "./definition.ts";
import type { Tool } from "./tool.ts";

const description =
  "Writes a thought into the record of the conversation. It changes nothing and gets no information. Use it to weigh causes of a bug, " +
  "to plan a change, or to note what was learned before going on.";

export const thinkTool: Tool<ThinkAction, Static<typeof ThinkObservation>> = {
  name: "think",
  description,
  definition: toolDefinition("think", "Think", description, "readOnly", "idempotent"),
  parameters: Type.Object({ thought: Type.String({ description: "The thought." }) }),
  actionKind: "ThinkAction",
  role: "thought",
  idempotent: true,
  readOnly: true,
  resources: () => [],
  async run() {
    return {
      kind: "ThinkObservation",
      content: [textContent("Your thought has been recorded.")],
      is_error: false,
    };
  },
};
