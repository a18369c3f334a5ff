import { findClosestName } from "@sandpiper/core/closest-name";
import { PlatformError } from "@sandpiper/core/errors";
import { trimTail } from "@sandpiper/core/trim";
import { defaultModelName } from "@sandpiper/wire";
import { type BedrockEndpoint, bedrockModelId, resolveBedrock } from "./aws.ts";
import type { ModelConfig } from "./model.ts";
import { isOpenAiReasoner } from "./openai-models.ts";
import { guessProvider, type Provider, providers, type Wire } from "./providers.ts";

/** Where a configured model is and how to talk to it. */
export interface ModelAddress {
  /** As configured. */
  name: string;
  provider: string;
  wire: Wire;
  /** The endpoint's name of the model. */
  modelId: string;
  /** Without a trailing slash, version segment included. */
  baseUrl: string;
  /** Undefined where the endpoint needs none. */
  apiKey: string | undefined;
  /** Bedrock only: who signs the requests, and for which region. */
  aws?: Pick<BedrockEndpoint, "region" | "access">;
}

/** The models of released clients whose users have chosen none. */
const clientDefaults = new Set([defaultModelName, "gpt-5.6"]);

/**
 * Finds the endpoint and key of a model name such as `anthropic/claude-sonnet-4-5`, `gpt-5` or,
 * with a base URL, any name. Throws ModelNotConfigured that names the missing setting.
 */
export function resolveModel(
  config: ModelConfig,
  env: Readonly<Record<string, string | undefined>>,
): ModelAddress {
  const name = config.model.trim();
  const configuredUrl = config.baseUrl?.trim() || undefined;
  if (name === "") {
    throw new PlatformError("NoModelConfigured");
  }
  const { provider, modelId } = splitName(name, configuredUrl !== undefined);
  const known = providers[provider];
  if (!known && !configuredUrl) {
    const meant = findClosestName(name.split("/", 1)[0]!.toLowerCase(), Object.keys(providers));
    const hint = meant === undefined || !name.includes("/") ? "" : ` (did you mean ${meant}?)`;
    throw new PlatformError("ModelProviderUnknown", {
      ...{ name, hint },
      providers: Object.keys(providers).join(", "),
    });
  }
  const entry: Provider = known ?? { title: "the endpoint", wire: "openai", keyVariables: [] };
  if (entry.wire === "bedrock") return bedrockAddress(config, name, modelId, env);
  const baseUrl = configuredUrl ? normaliseBaseUrl(configuredUrl, provider, entry.wire) : entry.baseUrl;
  if (!baseUrl) {
    throw new PlatformError("ModelAddressMissing", { name, title: entry.title });
  }
  const apiKey = config.apiKey?.trim() || environmentKey(entry, baseUrl, env);
  if (!apiKey && !isKeyless(entry, known !== undefined, baseUrl)) {
    if (configuredUrl && !isOfficial(entry, baseUrl))
      throw new PlatformError("ModelKeyMissingAtAddress", { name, host: new URL(baseUrl).host });
    if (!configuredUrl && clientDefaults.has(name))
      throw new PlatformError("DefaultModelWithoutKey", { name });
    throw new PlatformError("ModelKeyMissing", { name, variable: String(entry.keyVariables[0]) });
  }
  return { name, provider, ...openAiWire(config, entry, modelId, baseUrl), baseUrl, apiKey };
}

/**
 * Chooses chat completions or responses for OpenAI's protocols: by `api_mode`; otherwise responses
 * for names like `openai/responses/…` and for OpenAI's own reasoning models.
 */
function openAiWire(
  config: ModelConfig,
  entry: Provider,
  name: string,
  baseUrl: string,
): Pick<ModelAddress, "wire" | "modelId"> {
  const { wire } = entry;
  if (wire !== "openai") return { wire, modelId: name };
  const named = name.startsWith("responses/") && name.length > "responses/".length;
  const modelId = named ? name.slice("responses/".length) : name;
  const mode = config.options?.apiMode ?? "auto";
  const isOwn = baseUrl === providers.openai?.baseUrl;
  const responses =
    mode === "responses" || (mode === "auto" && (named || (isOwn && isOpenAiReasoner(modelId))));
  return { wire: responses ? "responses" : "openai", modelId };
}

function bedrockAddress(
  config: ModelConfig,
  name: string,
  rest: string,
  env: Readonly<Record<string, string | undefined>>,
): ModelAddress {
  const { modelId, region } = bedrockModelId(rest);
  const url = config.baseUrl?.trim() || config.aws?.endpoint?.trim() || undefined;
  const { baseUrl, apiKey, ...aws } = resolveBedrock(
    name,
    {
      apiKey: config.apiKey?.trim() || undefined,
      baseUrl: url && normaliseBaseUrl(url, "bedrock", "bedrock"),
      region,
      aws: config.aws,
    },
    env,
  );
  return { name, provider: "bedrock", wire: "bedrock", modelId, baseUrl, apiKey, aws };
}

/**
 * A known first segment is the provider. Behind a base URL, a bare name or an unknown first segment
 * is passed unchanged (`meta-llama/Llama-3.3`), because proxies serve any name.
 */
function splitName(name: string, hasBaseUrl: boolean): { provider: string; modelId: string } {
  const slash = name.indexOf("/");
  const prefix = name.slice(0, Math.max(slash, 0)).toLowerCase();
  if (Object.hasOwn(providers, prefix) && slash < name.length - 1)
    return { provider: prefix, modelId: name.slice(slash + 1) };
  const guess = slash < 0 && !hasBaseUrl ? guessProvider(name) : undefined;
  return { provider: guess ?? "", modelId: name };
}

/**
 * Normalises a base URL: `https://host` gets the version segment, an endpoint's path is removed,
 * anything else stays. Throws ModelNotConfigured for an invalid address.
 */
export function normaliseBaseUrl(text: string, provider: string, wire: Wire): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new PlatformError("ModelAddressInvalid");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new PlatformError("ModelAddressScheme");
  }
  if (url.username || url.password) {
    throw new PlatformError("ModelAddressUserInfo");
  }
  const path = trimTail(url.pathname, "/").replace(/\/(chat\/completions|responses|messages)$/, "");
  if (wire === "bedrock") return url.origin + path;
  const version = provider === "azure" ? "/openai/v1" : wire === "google" ? "/v1beta" : "/v1";
  return url.origin + (path === "" || (provider === "azure" && path === "/openai") ? version : path);
}

/** Whether an address is the one that the model's provider has anyway. */
export function isProviderUrl(model: string, baseUrl: string): boolean {
  const entry = providers[splitName(model.trim(), false).provider];
  if (!entry?.baseUrl || !URL.canParse(baseUrl)) return false;
  const plain = (text: string) => trimTail(text, "/");
  return plain(baseUrl) === entry.baseUrl || plain(baseUrl) === new URL(entry.baseUrl).origin;
}

/**
 * A key of the server's environment goes only to the provider's own address: otherwise a user with
 * a base URL of their own could obtain the operator's key.
 */
function environmentKey(
  entry: Provider,
  baseUrl: string,
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  if (!isOfficial(entry, baseUrl)) return undefined;
  return entry.keyVariables.map((variable) => env[variable]?.trim()).find(Boolean);
}

function isOfficial(entry: Provider, baseUrl: string): boolean {
  return entry.baseUrl !== undefined && new URL(entry.baseUrl).origin === new URL(baseUrl).origin;
}

function isKeyless(entry: Provider, known: boolean, baseUrl: string): boolean {
  return (known && entry.keyVariables.length === 0) || isLoopback(new URL(baseUrl).hostname);
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host.endsWith(".localhost") || /^127\./.test(host) || host === "[::1]";
}
