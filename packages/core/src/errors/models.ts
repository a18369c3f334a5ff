import type { ErrorTexts } from "./texts.ts";

export const modelsErrors = {
  ModelNotConfigured: {
    ModelHeaderUnusable: "The header {header} of the model's extra_headers cannot be set.",
    ModelHeaderCharacter:
      "The header {header} of the model's extra_headers holds a character that HTTP cannot carry.",
    AwsRegionInvalid: "aws_region_name has to be a region like us-east-1.",
    BedrockKeyMissing:
      "No key is configured for the model {name}: set llm_api_key (a Bedrock API key) or aws_access_key_id and aws_secret_access_key in the settings, or start the server with AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY{note}.",
    NoModelConfigured:
      "No model is configured: set llm_model (and llm_api_key) by POST /api/settings, for example anthropic/claude-sonnet-4-5, or demo/repair, which needs no key.",
    DefaultModelWithoutKey:
      "No model is configured, and the default {name} has no key: set llm_model and llm_api_key by POST /api/settings, for example anthropic/claude-sonnet-4-5, or demo/repair, which needs no key.",
    ModelProviderUnknown:
      "The model {name} names no provider known here{hint}: write it as provider/model ({providers}) or set llm_base_url to an OpenAI-compatible endpoint.",
    ModelAddressMissing: "The model {name} needs llm_base_url, the address of the {title} endpoint.",
    ModelAddressInvalid: "llm_base_url is not a valid address: write it like https://host/v1.",
    ModelAddressScheme: "llm_base_url has to begin with http:// or https://.",
    ModelAddressUserInfo:
      "llm_base_url must not carry a user name or password: put the key into llm_api_key.",
    ModelKeyMissing:
      "No key is configured for the model {name}: set llm_api_key by POST /api/settings, or start the server with {variable}.",
    ModelKeyMissingAtAddress:
      "No key is configured for the model {name} at {host}: set llm_api_key by POST /api/settings (keys from the server's environment go to a provider's own address only).",
  },
  ContextWindowExceeded: {
    PromptTooLong: "The model {model} failed{detail}",
  },
  ModelRefused: {
    ModelCallRefused: "The model {model} failed{detail}",
  },
  ModelFailed: {
    ModelCallFailed: "The model {model} failed{detail}",
  },
  ModelTimeout: {
    ModelCallTimedOut: "The model {model} failed{detail}",
  },
} as const satisfies ErrorTexts;
