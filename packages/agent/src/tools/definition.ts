import type { ToolDefinition } from "@sandpiper/wire";

/** What a tool does to the world, as SystemPromptEvent.tools tells it. */
interface Hints {
  readOnly: boolean;
  destructive: boolean;
  idempotent: boolean;
  openWorld: boolean;
}

/**
 * The definition of a tool whose kinds begin with `kind`: `TerminalTool`, `TerminalAction`,
 * `TerminalObservation` (events.md section 3).
 */
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
