import { errorText, PlatformError } from "@sandpiper/core/errors";
import { checkRegion } from "@sandpiper/models/aws";
import { checkHeaders } from "@sandpiper/models/request-fetch";
import { normaliseBaseUrl } from "@sandpiper/models/resolve";
import type { LlmDiff } from "@sandpiper/wire";
import type { SettingsDocument } from "./document.ts";

/** Checks of settings that only other parts of the server understand; each throws PlatformError. */
export interface SettingChecks {
  /** `sandbox_base_container_image`. */
  image(reference: string): void;
  /** `default_sandbox_spec_id`. */
  spec(id: string): void;
}

/** Values of one kind in a document, by their names for users, and what they must be. */
interface Rule {
  values(document: SettingsDocument): readonly (readonly [name: string, value: unknown])[];
  /** Throws for a value that cannot be used. */
  check(value: string, name: string): void;
}

/** Line breaks and other control characters break the files and headers that a text ends up in. */
const controlCharacter = /[\0-\x08\n-\x1f\x7f]/;

/** Key characters that HTTP can carry. */
const headerText = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * Refuses what a change makes unusable: a value that would only fail later, when a conversation
 * starts or a model is called. Unchanged values are not checked, so that one that has become
 * unusable does not prevent other changes. Throws InvalidParameter.
 */
export function checkChange(before: SettingsDocument, after: SettingsDocument, checks: SettingChecks): void {
  for (const { values, check } of makeRules(checks)) {
    const old = new Map(values(before));
    for (const [name, value] of values(after)) {
      if (typeof value !== "string" || value === "" || old.get(name) === value) continue;
      try {
        check(value, name);
      } catch (error) {
        throw new PlatformError("SettingUnusable", { name, reason: errorText(error) });
      }
    }
  }
}

function makeRules({ image, spec }: SettingChecks): Rule[] {
  const oneLine = (value: string) => {
    if (controlCharacter.test(value)) throw new PlatformError("SettingControlCharacter");
  };
  return [
    {
      values: ({ sandbox_base_container_image: value }) => [["sandbox_base_container_image", value]],
      check: image,
    },
    { values: ({ default_sandbox_spec_id: value }) => [["default_sandbox_spec_id", value]], check: spec },
    {
      values: ({ git_user_name, git_user_email, email, language }) =>
        Object.entries({ git_user_name, git_user_email, email, language }),
      check: oneLine,
    },
    { values: ofModels(["model", "custom_tokenizer"]), check: oneLine },
    {
      values: ofModels(["base_url", "aws_bedrock_runtime_endpoint"]),
      check: (value) => void normaliseBaseUrl(value, "openai", "openai"),
    },
    { values: ofModels(["aws_region_name"]), check: checkRegion },
    {
      values: ofModels(["api_key"]),
      check: (value) => {
        if (!headerText.test(value)) throw new PlatformError("SettingControlCharacter");
      },
    },
    {
      values: (document) =>
        listModels(document).flatMap(([place, { extra_headers: headers }]) =>
          Object.entries(headers ?? {}).map(
            ([name, value]) => [`${place}.extra_headers.${name}`, value] as const,
          ),
        ),
      check: (value, name) => checkHeaders({ [name.slice(name.indexOf(".extra_headers.") + 15)]: value }),
    },
    {
      values: ({ agent_settings: agent }) =>
        Object.entries(agent?.mcp_config ?? {}).map(
          ([name, { url }]) => [`mcp_config.${name}.url`, url] as const,
        ),
      // A secret's value may be a part of the address.
      check: (value) => {
        const url = value.includes("${") ? undefined : value;
        if (url !== undefined && !(URL.canParse(url) && /^(?:https?|wss?):$/.test(new URL(url).protocol)))
          throw new PlatformError("McpAddressInvalid");
      },
    },
  ];
}

function listModels({ agent_settings, llm_profiles }: SettingsDocument): [place: string, llm: LlmDiff][] {
  const profiles = Object.entries(llm_profiles?.profiles ?? {});
  return [
    ["llm", agent_settings?.llm ?? {}],
    ...profiles.map(([name, llm]): [string, LlmDiff] => [`profiles.${name}`, llm]),
  ];
}

function ofModels(fields: readonly (keyof LlmDiff)[]): Rule["values"] {
  return (document) =>
    listModels(document).flatMap(([place, llm]) =>
      fields.map((field) => [`${place}.${field}`, llm[field]] as const),
    );
}
