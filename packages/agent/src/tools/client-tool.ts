import type { Action, ClientTool, Observation, ToolDefinition } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { givenSchema } from "./given-schema.ts";
import type { Tool } from "./tool.ts";

/**
 * A tool that the client runs (agent-server.md section 3.1, client_tools). The call is an event;
 * its result comes as a message.
 */
export function clientTool({ name, description, parameters, annotations }: ClientTool): Tool {
  const hint = (key: string, otherwise: boolean) =>
    typeof annotations?.[key] === "boolean" ? annotations[key] : otherwise;
  const definition = {
    kind: "ClientTool",
    title: name,
    description,
    action_type: `ClientAction_${name}`,
    observation_type: "ClientToolObservation",
    annotations: {
      title: name,
      readOnlyHint: hint("readOnlyHint", false),
      destructiveHint: hint("destructiveHint", true),
      idempotentHint: hint("idempotentHint", false),
      openWorldHint: hint("openWorldHint", true),
    },
    client_tool_name: name,
    input_schema: parameters,
  };
  return {
    name,
    description,
    definition: definition as ToolDefinition,
    parameters: givenSchema(parameters),
    actionKind: `ClientAction_${name}` as Action["kind"],
    outside: true,
    idempotent: false,
    readOnly: hint("readOnlyHint", false) as boolean,
    async run() {
      const text = `The call of ${name} was handed to the client. What comes of it follows as a message, if anything.`;
      return {
        kind: "ClientToolObservation",
        content: [textContent(text)],
        is_error: false,
      } as unknown as Observation;
    },
  };
}
