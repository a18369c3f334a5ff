import { PlatformError } from "@sandpiper/core/errors";
import type { GivenLlm, LlmDiff } from "@sandpiper/wire";

/**
 * A user's credentials for Amazon Bedrock. A Bedrock API key is stored as the model's API key and
 * takes precedence.
 */
export interface AwsAccess {
  accessKeyId?: string;
  secretAccessKey?: string;
  sessionToken?: string;
  region?: string;
  /** The address of the runtime, in the place of the region's. */
  endpoint?: string;
}

/** Endpoint and credentials of a Bedrock model. `access` is absent when an API key is used. */
export interface BedrockEndpoint {
  region: string;
  baseUrl: string;
  apiKey: string | undefined;
  access?: { accessKeyId: string; secretAccessKey: string; sessionToken?: string };
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the `aws_*` fields of a client's model; masked and empty ones are ignored. Undefined when
 * there are none.
 */
export function parseAwsAccess(llm: GivenLlm | LlmDiff): AwsAccess | undefined {
  const given = {
    accessKeyId: llm.aws_access_key_id,
    secretAccessKey: llm.aws_secret_access_key,
    sessionToken: llm.aws_session_token,
    region: llm.aws_region_name,
    endpoint: llm.aws_bedrock_runtime_endpoint,
  };
  const usable = Object.entries(given).filter(([, value]) => value && !/^\*+$/.test(value));
  return usable.length > 0 ? (Object.fromEntries(usable) as AwsAccess) : undefined;
}

/**
 * Splits the name after `bedrock/` into Bedrock's model id and its region, for example
 * `converse/…`, `us-west-2/…` and `us.anthropic.…`.
 */
export function bedrockModelId(name: string): { modelId: string; region?: string } {
  const rest = name.replace(/^(?:converse|converse_like|invoke)\//, "");
  const region = /^([a-z]{2}(?:-[a-z]+)+-\d)\//.exec(rest)?.[1];
  return region ? { modelId: rest.slice(region.length + 1), region } : { modelId: rest };
}

/**
 * Finds endpoint and credentials. Credentials of the server's environment
 * (AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY with AWS_SESSION_TOKEN)
 * go to Amazon's own address only. Throws ModelNotConfigured.
 */
export function resolveBedrock(
  name: string,
  given: {
    apiKey: string | undefined;
    baseUrl: string | undefined;
    region: string | undefined;
    aws: AwsAccess | undefined;
  },
  env: Environment,
): BedrockEndpoint {
  const { aws = {}, baseUrl } = given;
  const variable = (key: string) => env[key]?.trim() || undefined;
  const region =
    given.region ??
    (aws.region?.trim() || undefined) ??
    variable("AWS_REGION") ??
    variable("AWS_DEFAULT_REGION") ??
    "us-east-1";
  checkRegion(region);
  const official = `https://bedrock-runtime.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}`;
  const place = { region, baseUrl: baseUrl ?? official };
  if (given.apiKey) return { ...place, apiKey: given.apiKey };
  const { accessKeyId, secretAccessKey, sessionToken } = aws;
  if (accessKeyId && secretAccessKey) {
    return {
      ...place,
      apiKey: undefined,
      access: { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) },
    };
  }
  const own = place.baseUrl === official ? environmentAccess(variable) : undefined;
  if (own) return { ...place, ...own };
  throw new PlatformError("BedrockKeyMissing", {
    name,
    note:
      place.baseUrl === official
        ? ""
        : " (keys from the server's environment go to Amazon's own address only)",
  });
}

function environmentAccess(
  variable: (key: string) => string | undefined,
): Pick<BedrockEndpoint, "apiKey" | "access"> | undefined {
  const apiKey = variable("AWS_BEARER_TOKEN_BEDROCK");
  if (apiKey) return { apiKey };
  const accessKeyId = variable("AWS_ACCESS_KEY_ID");
  const secretAccessKey = variable("AWS_SECRET_ACCESS_KEY");
  const sessionToken = variable("AWS_SESSION_TOKEN");
  if (!accessKeyId || !secretAccessKey) return undefined;
  return {
    apiKey: undefined,
    access: { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) },
  };
}

/** Refuses what cannot be a part of a host's name. Throws ModelNotConfigured. */
export function checkRegion(region: string): void {
  if (!/^[a-z0-9-]{1,40}$/.test(region.trim())) throw new PlatformError("AwsRegionInvalid");
}
