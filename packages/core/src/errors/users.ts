import type { ErrorTexts } from "./texts.ts";

export const usersErrors = {
  ProfileNotFound: {
    LlmProfileMissing: "Profile '{name}' not found",
    AgentProfileUnknown: "Agent profile '{name}' not found",
    AgentProfileIdUnknown: "There is no agent profile with the id {id}",
  },
  ProfileExists: {
    LlmProfileExists: "Profile '{name}' already exists",
    AgentProfileExists: "Agent profile '{name}' already exists",
  },
  ProfileInUse: {
    LlmProfileReferenced: "LLM profile is referenced by {count} agent profile(s): {names}",
  },
  TooManyProfiles: {
    ProfileLimitReached: "Profile limit reached ({max}): delete a profile first.",
  },
  InvalidParameter: {
    ActiveProfileUnknown: "active_profile: there is no LLM profile with this name.",
    AgentProfileWithoutLlm:
      "The agent profile '{name}' names the LLM profile '{llm}', which does not exist: save it first.",
    ActiveAgentProfileUnknown: "active_agent_profile_id: there is no agent profile with this id.",
    SettingUnusable: "{name}: {reason}",
    SettingControlCharacter: "The text holds a line break or another character that cannot be used here.",
    SettingSpecUnknown: "There is no sandbox spec of this name: GET /api/v1/sandbox-specs/search lists them.",
    McpAddressInvalid: "The text is no address: write it like https://host/path.",
    SettingsTooLong: "The settings would be longer than 2 MiB: shorten or remove some of them.",
    TooManyMcpServers: "A user can have {max} MCP servers: remove some first.",
    TooManyWorkspaces: "A user can have {max} saved folders: remove some first.",
    SecretNameInvalid:
      "The name of a secret begins with a letter or an underscore, has letters, digits and underscores only, and is at most 128 characters long.",
    SecretNameReserved: "Programs in a sandbox need the variable {name}: choose another name.",
    SecretValueMissing: "Secret value must not be empty or redacted",
    EncryptedSecretInvalid: "An encrypted secret cannot be opened: read it again from this server.",
    TitleCallbackAdded: "Titles are always set: SetTitleCallbackProcessor cannot be added.",
  },
  McpServerExists: {
    McpServerNameTaken: "An MCP server with this name already exists.",
  },
  SecretExists: {
    SecretNameTaken: "Secret {name} already exists",
  },
  SecretNotFound: {
    SecretIdUnknown: "Secret with ID {id} not found",
  },
  TooManySecrets: {
    UserSecretsTooMany: "A user can have {max} secrets: remove one first.",
    UserSecretsTooLong: "The secrets of a user can have 1 MB together: remove some first.",
    ConversationSecretsTooMany: "A conversation can have {max} secrets, 1 MB together.",
  },
  TooManyKeys: {
    UserKeysTooMany: "A user can have {max} keys: revoke one first.",
  },
  KeyExists: {
    KeyNameTaken: "There is a key with the name {name}.",
  },
  BehaviourNotFound: {
    BehaviourUnknown: "There is no behaviour with this digest: it was not found in one of your sandboxes.",
  },
  BehaviourRestricted: {
    BehaviourNotAccepted:
      "What {origin} does by itself was not accepted, so this sandbox gets no secrets: read and accept it at {link}",
  },
  TooManyAcceptances: {
    BehaviourForgotten:
      "Too much else was found in this sandbox since, so that what this project does is no longer kept: use a new sandbox.",
    TooManyAcceptancesStored: "A user can accept {max} repositories: withdraw an acceptance first.",
  },
  CallbackNotFound: {
    CallbackUnknown: "Callback not found",
  },
  TooManyCallbacks: {
    CallbackLimitReached: "A conversation can have {max} callbacks: remove one first.",
  },
} as const satisfies ErrorTexts;
