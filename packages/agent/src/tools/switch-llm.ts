import type { SwitchLLMAction, SwitchLLMObservation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { Type } from "typebox";
import { lowRisk } from "../risk/findings.ts";
import { toolDefinition } from "./definition.ts";
import type { Tool, ToolTraits } from "./tool.ts";

export interface OfferedProfile {
  name: string;
  model: string;
}

/** Switches the conversation's model from its next step on. */
export type SwitchProfile = (conversationId: string, profile: string) => Promise<void>;

export const switchLlmTraits = {
  name: "switch_llm",
  actionKind: "SwitchLLMAction",
  outside: true,
  risk: () => lowRisk,
} satisfies ToolTraits<SwitchLLMAction>;

/** Lets the agent switch to another model (events.md section 3). */
export function switchLlmTool(profiles: readonly OfferedProfile[], change: SwitchProfile): Tool {
  const list = profiles.map(({ name, model }) => `- ${name}: ${model}`).join("\n");
  const description = `Goes on with another model from the next step on. The history stays.

Use it when the user asks for it, or when another model is clearly better for what comes next. The profiles:
${list}`;
  const tool: Tool<SwitchLLMAction, SwitchLLMObservation> = {
    ...switchLlmTraits,
    description,
    definition: toolDefinition("switch_llm", "SwitchLLM", description, "idempotent"),
    parameters: Type.Object({
      profile_name: Type.String({ description: "Name of the profile." }),
      reason: Type.String({ description: "Why, in a sentence." }),
    }),
    idempotent: true,
    readOnly: false,
    async run({ profile_name, reason }, { conversationId }) {
      const common = { kind: "SwitchLLMObservation", profile_name, reason } as const;
      const profile = profiles.find(({ name }) => name === profile_name);
      if (!profile)
        return {
          ...common,
          content: [textContent(`There is no such profile. There are:\n${list}`)],
          is_error: true,
        };
      await change(conversationId, profile_name);
      const text = `The model is ${profile.model} from the next step on.`;
      return { ...common, content: [textContent(text)], is_error: false, active_model: profile.model };
    },
  };
  return tool;
}
