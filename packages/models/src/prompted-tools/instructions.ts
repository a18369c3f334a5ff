import type { ModelTool } from "../model.ts";

/** End marker of a call; an endpoint may use it as a stop sequence. */
export const callEnd = "</function>";

/**
 * Instructions for models that cannot call tools over their wire (agent-behaviour.md section 3).
 */
export function formatToolInstructions(tools: readonly ModelTool[]): string {
  return `You have these tools:

${tools.map(describe).join("\n\n")}

To call a tool, end your answer with its call in exactly this form:

<function=name_of_the_tool>
<parameter=name_of_a_parameter>
the value, which may have
several lines
</parameter>
${callEnd}

* Call one tool at a time and write nothing after the call: its result comes in the next message.
* Give every required parameter. A value stands as it is, without quotes and escapes; numbers, true and false, lists and objects as JSON.
* Say what you think before the call, not after it. An answer without a call ends your turn.`;
}

function describe({ name, description, parameters }: ModelTool): string {
  const properties = (parameters.properties ?? {}) as Record<string, Record<string, unknown>>;
  const required = new Set(parameters.required as string[] | undefined);
  const lines = Object.entries(properties).map(([parameter, schema]) => {
    const { description: about = "", ...rest } = schema;
    return `  ${parameter} (${required.has(parameter) ? "required" : "optional"}): ${about} Schema: ${JSON.stringify(rest)}`;
  });
  return [
    `## ${name}`,
    description,
    lines.length > 0 ? `Parameters:\n${lines.join("\n")}` : "It has no parameters.",
  ].join("\n");
}
