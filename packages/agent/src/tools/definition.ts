import type { ToolDefinition } from "@sandpiper/wire";

type Hint = "readOnly" | "destructive" | "idempotent" | "openWorld";

/** Definition of a tool with the kinds `…Tool`, `…Action`, `…Observation` (events.md section 3). */
export function toolDefinition(
  name: string,
  kind: string,
  description: string,
  ...hints: Hint[]
): ToolDefinition {
  return {
    kind: `${kind}Tool`,
    title: name,
    description,
    action_type: `${kind}Action`,
    observation_type: `${kind}Observation`,
    annotations: {
      title: name,
      readOnlyHint: hints.includes("readOnly"),
      destructiveHint: hints.includes("destructive"),
      idempotentHint: hints.includes("idempotent"),
      openWorldHint: hints.includes("openWorld"),
    },
  };
}
