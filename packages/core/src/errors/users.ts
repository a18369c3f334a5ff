import type { ErrorTexts } from "./texts.ts";

type Name = { name: string };
type Max = { max: number };

export const usersErrors = {
  LlmProfileMissing: ["ProfileNotFound", ({ name }: Name) => `Profile '${name}' not found`],
  LlmProfileExists: ["ProfileExists", ({ name }: Name) => `Profile '${name}' already exists`],
  ProfileLimitReached: [
    "TooManyProfiles",
    ({ max }: Max) => `Profile limit reached (${max}): delete a profile first.`,
  ],
  ActiveProfileUnknown: ["InvalidParameter", "active_profile: there is no LLM profile with this name."],
  AgentProfileUnknown: ["ProfileNotFound", ({ name }: Name) => `Agent profile '${name}' not found`],
  AgentProfileIdUnknown: [
    "ProfileNotFound",
    ({ id }: { id: string }) => `There is no agent profile with the id ${id}`,
  ],
  AgentProfileExists: ["ProfileExists", ({ name }: Name) => `Agent profile '${name}' already exists`],
  AgentProfileWithoutLlm: [
    "InvalidParameter",
    ({ name, llm }: { name: string; llm: string }) =>
      `The agent profile '${name}' names the LLM profile '${llm}', which does not exist: save it first.`,
  ],
  ActiveAgentProfileUnknown: [
    "InvalidParameter",
    "active_agent_profile_id: there is no agent profile with this id.",
  ],
  SettingsTooLong: [
    "InvalidParameter",
    "The settings would be longer than 2 MiB: shorten or remove some of them.",
  ],
  TooManyMcpServers: [
    "InvalidParameter",
    ({ max }: Max) => `A user can have ${max} MCP servers: remove some first.`,
  ],
  McpServerNameTaken: ["McpServerExists", "An MCP server with this name already exists."],
  TooManyWorkspaces: [
    "InvalidParameter",
    ({ max }: Max) => `A user can have ${max} saved folders: remove some first.`,
  ],

  SecretNameInvalid: [
    "InvalidParameter",
    "The name of a secret begins with a letter or an underscore, has letters, digits and underscores only, and is at most 128 characters long.",
  ],
  SecretNameReserved: [
    "InvalidParameter",
    ({ name }: Name) => `Programs in a sandbox need the variable ${name}: choose another name.`,
  ],
  SecretNameTaken: ["SecretExists", ({ name }: Name) => `Secret ${name} already exists`],
  SecretIdUnknown: ["SecretNotFound", ({ id }: { id: string }) => `Secret with ID ${id} not found`],
  UserSecretsTooMany: [
    "TooManySecrets",
    ({ max }: Max) => `A user can have ${max} secrets: remove one first.`,
  ],
  UserSecretsTooLong: ["TooManySecrets", "The secrets of a user can have 1 MB together: remove some first."],
  ConversationSecretsTooMany: [
    "TooManySecrets",
    ({ max }: Max) => `A conversation can have ${max} secrets, 1 MB together.`,
  ],
  EncryptedSecretInvalid: [
    "InvalidParameter",
    "An encrypted secret cannot be opened: read it again from this server.",
  ],
  UserKeysTooMany: ["TooManyKeys", ({ max }: Max) => `A user can have ${max} keys: revoke one first.`],
  KeyNameTaken: ["KeyExists", ({ name }: Name) => `There is a key with the name ${name}.`],

  TitleCallbackAdded: [
    "InvalidParameter",
    "Titles are always set: SetTitleCallbackProcessor cannot be added.",
  ],
  CallbackUnknown: ["CallbackNotFound", "Callback not found"],
  CallbackLimitReached: [
    "TooManyCallbacks",
    ({ max }: Max) => `A conversation can have ${max} callbacks: remove one first.`,
  ],
} as const satisfies ErrorTexts;
