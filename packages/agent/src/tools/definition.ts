import type { ToolDefinition } from "@sandpiper/wire";

/** Annotations in SystemPromptEvent.tools. */
interface Hints {
  readOnly: boolean;
  destructive: boolean;
  idempotent: boolean;
  openWorld: boolean;
}

/** Definition of a tool with the kinds `…Tool`, `…Action`, `…Observation` (events.md section 3). */
export function toolDefinition(
  name: string,
  kind: string,
  description: string,
  hints: Hints,
): ToolDefinition {
  return {
    kind: `${kind}Tool`,
    title: name,
    description,
    action_type: `${kind}Action`,
    observation_type: `${kind}Observation`,
    annotations: {
      title: name,
      readOnlyHint: hints.readOnly,
      destructiveHint: hints.destructive,
      idempotentHint: hints.idempotent,
      openWorldHint: hints.openWorld,
    },
  };
}
