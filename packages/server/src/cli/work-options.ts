import { parseImageReference } from "@sandpiper/sandbox/specs/image-reference";
import type { NetworkRule } from "@sandpiper/wire";
import { CliError, exitCodes } from "./errors.ts";
import { inertJson } from "./inert.ts";

/** The options that `run` and `chat` share. */
export interface WorkOptions {
  dir?: string;
  repo?: string;
  model?: string;
  baseUrl?: string;
  /** USD. */
  maxCost?: number;
  /** Id of a conversation; true: the last one of the folder. */
  continue?: string | true;
  /** What the folder runs by itself may use secrets. */
  trust?: boolean;
  /** Copy files that look like secrets, too; undefined: ask on a terminal. */
  secrets?: boolean;
  /** Largest copy, such as `20G`. */
  copyLimit?: string;
  image?: string;
  spec?: string;
  /** `host[:port]` */
  allow?: string[];
  /** `NAME=VALUE`, or `NAME` for the value in this process. */
  env?: string[];
}

/** What a new sandbox is made of. */
export interface SandboxRequest {
  /** Undefined: the spec of the settings. */
  specId?: string | undefined;
  allow?: NetworkRule[];
  env?: Record<string, string>;
  /** Undefined: the working folder of the spec. */
  workingDir?: string | undefined;
}

/** Where a model is; undefined: at its provider, or where the settings say. */
export interface ModelEndpoint {
  baseUrl: string | undefined;
  /** Key for `baseUrl`. */
  apiKey: string | undefined;
}

/** Throws CliError for options that contradict each other. */
export function checkWorkOptions(options: WorkOptions): void {
  if (options.dir && options.repo) throw usage("Give --dir or --repo, not both.");
  if (options.baseUrl && !options.model) throw usage("--base-url needs --model.");
  const { baseUrl } = options;
  if (baseUrl !== undefined && !(URL.canParse(baseUrl) && /^https?:/i.test(baseUrl)))
    throw usage(`--base-url takes an address such as https://host/v1, not ${inertJson(baseUrl)}.`);
  if (options.spec?.trim() === "") throw usage("--spec takes the id of a sandbox spec, such as host.");
  const isNew = options.image ?? options.spec ?? options.allow?.[0] ?? options.env?.[0];
  if (options.continue && isNew !== undefined)
    throw usage(
      "--continue works in the sandbox of its conversation: omit --image, --spec, --allow and --env.",
    );
}

/** Throws CliError. */
export function toSandboxRequest({ image, spec, allow = [], env = [] }: WorkOptions): SandboxRequest {
  if (image !== undefined) checkImage(image);
  return {
    specId: image ? `docker://${image}` : spec,
    allow: allow.map(parseHost),
    env: Object.fromEntries(env.map(parseVariable)),
  };
}

export function toEndpoint({ baseUrl }: WorkOptions): ModelEndpoint {
  return { baseUrl, apiKey: baseUrl && process.env.LLM_API_KEY };
}

function checkImage(image: string): void {
  try {
    parseImageReference(image);
  } catch (error) {
    throw usage(`--image: ${(error as Error).message}`);
  }
}

function parseHost(text: string): NetworkRule {
  const [, host, port] = /^((?:\*\.)?[A-Za-z0-9][A-Za-z0-9.-]*)(?::(\d{1,5}))?$/.exec(text) ?? [];
  if (!host || (port && !(Number(port) >= 1 && Number(port) <= 65_535)))
    throw usage(`--allow takes a host such as pypi.org, *.example.com or host:8080, not ${inertJson(text)}.`);
  return { host, ...(port && { ports: [Number(port)] }) };
}

function parseVariable(text: string): [string, string] {
  const [, name, , value = process.env[text]] = /^([A-Za-z_][A-Za-z0-9_]*)(=(.*))?$/s.exec(text) ?? [];
  if (name === undefined) throw usage(`--env takes NAME=VALUE or NAME, not ${inertJson(text)}.`);
  if (value === undefined) throw usage(`--env ${name}: this variable is not set here; use ${name}=VALUE.`);
  return [name, value];
}

/** Wrong use of the command line, in one sentence. */
export function usage(sentence: string): CliError {
  return new CliError(sentence, { exitCode: exitCodes.usage });
}
