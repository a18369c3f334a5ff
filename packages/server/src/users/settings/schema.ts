import {
  AgentSettings,
  ConversationSettings,
  isObjectSchema,
  type SettingHint,
  type SettingsSchema,
} from "@sandpiper/wire";
import type { TObject, TSchema } from "typebox";
import { getDefault, getInnerSchema, isSecret } from "./fields.ts";

type Section = SettingsSchema["sections"][number];
type Field = Section["fields"][number];

const acronyms: ReadonlySet<string> = new Set(["api", "aws", "id", "llm", "url", "mcp"]);

/**
 * The form description of `agent_settings` (app-server.md section 5), derived from their schema.
 */
export const agentSchema: SettingsSchema = describe("AgentSettings", AgentSettings, "openhands");

/** The form description of `conversation_settings`. */
export const conversationSchema: SettingsSchema = describe(
  "ConversationSettings",
  ConversationSettings,
  null,
);

/**
 * Sections in schema order: one per nested object, with fields named `section.field`; other fields
 * belong to `general` or the section of their hint. Fields without a hint are omitted. The sections
 * of one kind of agent carry it as `variant`.
 */
function describe(model: string, schema: TObject, kind: string | null): SettingsSchema {
  const sections = new Map<string, Section>();
  const section = (key: string): Section => {
    const variant = key === "general" ? null : kind;
    const found = sections.get(key) ?? { key, label: toLabel(key), variant, fields: [] };
    sections.set(key, found);
    return found;
  };
  for (const [name, property] of Object.entries(schema.properties) as [string, TSchema][]) {
    if (isObjectSchema(property)) {
      for (const [inner, field] of Object.entries(property.properties) as [string, TSchema][])
        if (getHint(field)) addField(section(name), `${name}.${inner}`, inner, field, `${name}.`);
    } else {
      const hint = getHint(property);
      if (hint) addField(section(hint.section ?? "general"), name, name, property, "");
    }
  }
  return { model_name: model, sections: [...sections.values()] };
}

function addField(section: Section, key: string, name: string, schema: TSchema, prefix: string): void {
  const hint = getHint(schema)!;
  const inner = getInnerSchema(schema);
  const value = getDefault(schema);
  section.fields.push({
    key,
    label: hint.label ?? toLabel(name),
    description: (inner as { description?: string }).description ?? null,
    section: section.key,
    section_label: section.label,
    value_type: getValueType(inner),
    default: isSecret(schema) ? null : (value ?? null),
    prominence: hint.prominence ?? "minor",
    depends_on: (hint.depends_on ?? []).map((other) => prefix + other),
    secret: isSecret(schema),
    choices: (inner.enum ?? []).map((choice) => ({ value: choice, label: String(choice) })),
    variant: section.variant,
  });
}

function getHint(schema: TSchema): SettingHint | undefined {
  return (schema as { "x-setting"?: SettingHint })["x-setting"];
}

function getValueType({ type }: { type?: string }): Field["value_type"] {
  return type as Field["value_type"];
}

/** `aws_region_name` as `AWS Region Name`. */
function toLabel(name: string): string {
  const words = name
    .split("_")
    .map((word) => (acronyms.has(word) ? word.toUpperCase() : word[0]!.toUpperCase() + word.slice(1)));
  return words.join(" ");
}
